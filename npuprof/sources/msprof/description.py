"""What a result of msprof tells of its run: the control files that the collector left beside it.

Source: sources/RESULTS.md section 1.3.
"""

from __future__ import annotations

from npuprof.info import Info
from npuprof.notes import Notes
from npuprof.sources.msprof.layout import Layout
from npuprof.sources.raw.metadata import clocks
from npuprof.sources.raw.metadata.control_files import read_sides
from npuprof.sources.raw.metadata.run_info import read_info

SOURCE = "msprof text result"


def describe(layout: Layout) -> tuple[Info, int | None]:
    """Gather what the control files tell, and what to add to a time since the machine's start to have UTC.

    Results are often copied without them: then little is known, and nothing is missed.
    """
    unasked = Notes()  # of control files that are not there: the result itself is whole without them
    try:
        sides = read_sides(layout.root, unasked)
    except OSError:
        sides = []
    anchored = any(side.start for side in sides)
    utc_ns = clocks.epoch_offset(sides, unasked) if anchored else None
    info = read_info(layout.root, sides, utc_ns or 0) if sides else Info(name=layout.root.name, recording=layout.root)
    info.source = f"{SOURCE}, layout of CANN 5 and 6" if layout.is_old else SOURCE
    return info, utc_ns
