"""The vendor's analysis of many ranks: ``cluster_analysis_output``, or one of its files.

Such a profile has no timeline. ``step_times`` has a row for each rank and each stage of a step; ``statistics`` has sums
of communication (``communication``, ``communication_bandwidth``, ``communication_packets``, ``communication_matrix``
and totals), the groups of ranks (``communication_groups``) and all further tables of a database or a recipe.
``info.metadata`` has the ranks, the stages, the groups by kind of parallelism and, if recorded, the sizes of each
(``distributed_args``) and the device of each rank (``rank_devices``). Text files take precedence over a database.

Source: sources/RESULTS.md section 6.
"""

from __future__ import annotations

from pathlib import Path

from npuprof.errors import SourceError
from npuprof.sources.base import Decoded, Source
from npuprof.sources.cluster.analysis import ClusterReading
from npuprof.sources.cluster.layout import find
from npuprof.tables.info import Info

__all__ = ["SOURCE", "describe", "read", "recognises"]


def recognises(path: Path) -> bool:
    """Check by content whether `path` is a file of an analysis, or a directory of such files."""
    return find(path) is not None


def read(path: Path) -> Decoded:
    """Read one analysis."""
    return _reading(path, whole=True)


def describe(path: Path) -> Info:
    """Return the ranks and their groups from the small files only; raises the errors of :func:`read`."""
    return _reading(path, whole=False).info


def _reading(path: Path, *, whole: bool) -> Decoded:
    layout = find(path)
    if layout is None:
        raise SourceError(
            f"{path} is no analysis of a cluster: give it cluster_analysis_output or one of its files, which "
            "`msprof-analyze cluster -d PATH` makes of the results of all ranks"
        )
    reading = ClusterReading(layout)
    reading.run(whole=whole)
    return reading.decoded


SOURCE = Source("cluster", (None, "parsed", "text", "db"), recognises, read, describe=describe, of_many_runs=True)
