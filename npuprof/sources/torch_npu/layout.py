"""Find the files of a torch_npu text result, whichever of its paths is given.

Source: formats/results.md section 1.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from npuprof.sources.trace_json import is_trace

OUTPUT = "ASCEND_PROFILER_OUTPUT"
_RESULTS = ("kernel_details.csv", "step_trace_time.csv", "memory_record.csv")
_TRACE_NAMES = ("trace_view.json", "trace_view.json.gz")
_MAX_LISTED = 10_000  # a directory of thousands of ranks is no single result


@dataclass(frozen=True)
class Layout:
    """Where the parts of one result lie.

    Attributes
    ----------
    root
        What to call the result: the ``*_ascend_pt`` directory, or the single file.
    output
        The directory of result files; None for a single file.
    trace
        The timeline, if there is one.
    profiler_info, metadata
        ``profiler_info*.json`` and ``profiler_metadata.json``, if they are there.
    """

    root: Path
    output: Path | None
    trace: Path | None
    profiler_info: Path | None = None
    metadata: Path | None = None

    def file(self, name: str) -> Path | None:
        """Give a result file's path if it exists."""
        path = self.output / name if self.output else None
        return path if path is not None and path.is_file() else None


def find(path: Path) -> Layout | None:
    """Recognise a ``*_ascend_pt`` directory, its output directory, or a timeline by itself.

    The name of the directory says nothing: users rename it. A path that may not be read holds nothing.
    """
    try:
        return _find(path)
    except OSError:
        return None


def _find(path: Path) -> Layout | None:
    if path.is_file():
        return Layout(path, None, path) if is_trace(path) else None
    output = path if path.name == OUTPUT else path / OUTPUT
    if not output.is_dir():
        return None
    root = output.parent
    info = next((found for found in _matching(root, "profiler_info*.json")), None)
    trace = next((output / name for name in _TRACE_NAMES if (output / name).is_file()), None)
    if info is None and trace is None and not any((output / name).is_file() for name in _RESULTS):
        return None
    metadata = root / "profiler_metadata.json"
    return Layout(root, output, trace, info, metadata if metadata.is_file() else None)


def _matching(directory: Path, pattern: str) -> Iterator[Path]:
    names = sorted(entry for _, entry in zip(range(_MAX_LISTED), directory.iterdir(), strict=False))
    return (entry for entry in names if entry.match(pattern) and entry.is_file())
