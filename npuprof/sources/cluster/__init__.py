"""What the vendor's analysis of many ranks left: ``cluster_analysis_output``, or one of its files by itself.

Such a profile has no timeline: ``step_times`` has a row for each rank and each stage of a step, ``statistics`` the sums
over communication (``communication``, ``communication_bandwidth``, ``communication_packets``, ``communication_matrix``
and their totals), the groups of ranks (``communication_groups``), and every further table of a database or a recipe
under its own name. ``info.metadata`` tells the ranks, the stages, the groups by kind of parallelism and, where the
files do, the sizes of each (``distributed_args``) and where a rank ran (``rank_devices``).

Where text files and a database tell the same, the text files are shown.

Source: sources/RESULTS.md section 6.
"""

from __future__ import annotations

from pathlib import Path

from npuprof.errors import SourceError
from npuprof.info import Info
from npuprof.sources.base import Decoded, Source
from npuprof.sources.cluster.analysis import Reading
from npuprof.sources.cluster.layout import find

__all__ = ["SOURCE", "describe", "read", "recognises"]


def recognises(path: Path) -> bool:
    """Return whether `path` is an analysis of a cluster: a file of it by its content, or a directory of such files."""
    return find(path) is not None


def read(path: Path) -> Decoded:
    """Read one analysis.

    Raises
    ------
    SourceError
        If it is no such thing, or none of its files can be read.
    """
    return _reading(path, whole=True)


def describe(path: Path) -> Info:
    """Return which ranks there are and how they are grouped, from the small files alone.

    Raises
    ------
    SourceError
        As :func:`read`.
    """
    return _reading(path, whole=False).info


def _reading(path: Path, *, whole: bool) -> Decoded:
    layout = find(path)
    if layout is None:
        raise SourceError(
            f"{path} is no analysis of a cluster: give it cluster_analysis_output or one of its files, which "
            "`msprof-analyze cluster -d PATH` makes of the results of all ranks"
        )
    reading = Reading(layout)
    reading.run(whole=whole)
    return reading.decoded


SOURCE = Source("cluster", (None, "parsed", "text", "db"), recognises, read, describe=describe, of_many_runs=True)
