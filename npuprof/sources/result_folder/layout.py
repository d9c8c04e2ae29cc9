"""Find the files of a torch_npu result from any of its paths.

Source: sources/RESULTS.md section 1.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from npuprof.sources.framework import mindspore, reader_of
from npuprof.sources.trace.events import is_trace

OUTPUT = "ASCEND_PROFILER_OUTPUT"
FRAMEWORK = "FRAMEWORK"
_COMMUNICATION = ("communication.json", "communication_matrix.json")
_RESULTS = ("kernel_details.csv", "step_trace_time.csv", "memory_record.csv", *_COMMUNICATION)
_ONLY_HERE = (*_RESULTS, "operator_memory.csv", "operator_details.csv", "op_statistic.csv")
_TRACE_NAMES = ("trace_view.json", "trace_view.json.gz")
_MAX_LISTED = 10_000  # a directory of thousands of ranks is not a single result


@dataclass(frozen=True)
class ResultFiles:
    """The paths of the parts of one result."""

    root: Path  # the name of the result: the `*_ascend_pt` directory, or the single file
    output: Path | None  # the directory of result files; None for a single file
    trace: Path | None  # the timeline, if there is one
    # profiler_info, metadata: `profiler_info*.json` and `profiler_metadata.json`, if they are there.
    profiler_info: Path | None = None
    metadata: Path | None = None
    raw: tuple[Path, ...] = ()  # the `PROF_*` directories of the collector, oldest first

    @property
    def framework(self) -> Path:
        """The folder of the framework's raw files, which may not exist."""
        return self.root / FRAMEWORK

    @property
    def is_parsed(self) -> bool:
        """Whether there is a result of the vendor's tool, or at least its directory."""
        if self.output is None:
            return self.trace is not None
        if self.profiler_info is not None or any(self.file(name) is not None for name in _RESULTS):
            return True
        # MindSpore without a device writes a timeline whose times went through a float; its raw files hold more data.
        return self.trace is not None and reader_of(self.framework) is not mindspore

    @property
    def is_raw(self) -> bool:
        """Whether there are raw files of the framework, or of the collector that it started."""
        return reader_of(self.framework) is not None or (self.profiler_info is not None and bool(self.raw))

    def file(self, name: str) -> Path | None:
        """Return the path of a result file if it exists, plain or compressed."""
        if self.output is None:
            return None
        return next((path for end in ("", ".gz") if (path := self.output / f"{name}{end}").is_file()), None)


def find(path: Path) -> ResultFiles | None:
    """Recognise a ``*_ascend_pt`` directory, its output or FRAMEWORK directory, or a single timeline.

    A directory that was not analysed has FRAMEWORK files, or ``profiler_info*.json`` next to ``PROF_*``. The name of
    the directory is ignored: users rename it. A path without read permission is not recognised.
    """
    try:
        return _find(path)
    except OSError:
        return None


def of_directory(path: Path) -> ResultFiles | None:
    """Return the layout of a directory, whether or not it is a result; None if it is not a directory."""
    root = path.parent if path.name in (OUTPUT, FRAMEWORK) else path
    if not root.is_dir():
        return None
    output = root / OUTPUT
    trace = next((output / name for name in _TRACE_NAMES if (output / name).is_file()), None)
    info = next(_matching(root, "profiler_info*.json", Path.is_file), None)
    metadata = root / "profiler_metadata.json"
    return ResultFiles(
        root,
        output if output.is_dir() else None,
        trace,
        info,
        metadata if metadata.is_file() else None,
        tuple(_matching(root, "PROF_*", Path.is_dir)),
    )


def _find(path: Path) -> ResultFiles | None:
    if path.is_file():
        return ResultFiles(path, None, path) if is_trace(path) else None
    layout = of_directory(path)
    return layout if layout is not None and (layout.is_parsed or layout.is_raw) else None


def find_files(folder: Path) -> ResultFiles | None:
    """Recognise a folder that directly holds files of a result, such as files copied out of a result."""
    try:
        if not folder.is_dir():
            return None
        trace = next((folder / name for name in _TRACE_NAMES if (folder / name).is_file()), None)
        layout = ResultFiles(folder, folder, trace)
        if trace is None and not any(layout.file(name) is not None for name in _ONLY_HERE):
            return None
        info = next(_matching(folder, "profiler_info*.json", Path.is_file), None)
    except OSError:
        return None
    metadata = folder / "profiler_metadata.json"
    return ResultFiles(folder, folder, trace, info, metadata if metadata.is_file() else None)


def _matching(directory: Path, pattern: str, is_kind: Callable[[Path], bool]) -> Iterator[Path]:
    names = sorted(entry for _, entry in zip(range(_MAX_LISTED), directory.iterdir(), strict=False))
    return (entry for entry in names if entry.match(pattern) and is_kind(entry))
