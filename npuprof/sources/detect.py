"""Detect which source reads a path: the first that recognises its content."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path

from npuprof.errors import SourceError
from npuprof.recordings.recording import FILE_NAME
from npuprof.sources import database, exported_trace, folder_of_files, kineto, recording, single_file
from npuprof.sources.base import Preference, Source
from npuprof.sources.files.archives import (
    Unpacked,
    is_archive,
    packed_in,
    refuse_other_archive,
    unpack,
    unpack_runs,
)
from npuprof.sources.files.walk import Walk, walk
from npuprof.sources.foreign import foreign_below, foreign_kind
from npuprof.sources.kineto.merged import MergedRanks, split
from npuprof.sources.raw_or_parsed import raw_problem
from npuprof.sources.registry import sources_for
from npuprof.sources.text.csv_table import fault_of_spreadsheet
from npuprof.tables.info import Info

_WANTED: Mapping[Preference, str] = {
    None: "nothing that npuprof can read",
    "text": "no text result",
    "db": "no database of a result",
    "raw": "no raw data",
    "parsed": "no parsed results",
}

_PAGES = frozenset({".html", ".htm"})
_MAX_AROUND = 4  # a slice is two levels below its PROF_* directory, which is inside a result
_MAX_NAMED = 5
_MAX_TRIED = 100  # files of a folder, to name those that can be read
_RANK = re.compile(r"rank[_-]?(\d{1,6})(?!\d)", re.IGNORECASE)
_JSON = (".json", ".json.gz")
_MAX_ENTRIES = 50_000
_MOST_HOSTS = 500  # characters
_KERNEL_TREES = ("/proc", "/sys", "/dev")
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - it holds ordinary files
_LFS_POINTER = b"version https://git-lfs"


@dataclass(frozen=True)
class DetectedResult:
    """A result on disk, recognised by its content."""

    source: Source  # its format
    path: Path
    choice: str = ""  # the reason of the choice if the path holds raw data and the parsed result of it; empty otherwise
    # The archive around it, whose content stays unpacked while this object exists; None without an archive.
    unpacked: Unpacked | None = None
    rank: int | None = None  # the rank that it is taken for, if its files have none
    is_rank_given: bool = False  # whether the caller gave the rank, which then counts more than that of the files

    def describe(self) -> Info:
        """Return the metadata of a run from its small files; the rank is else taken from the path (``rank_3``)."""
        info = self.source.describe(self.path)
        if info.rank is None or self.is_rank_given:
            info.rank = self.rank_of_path
        return info

    @property
    def rank_of_path(self) -> int | None:
        """Return the rank in a path, as in ``rank_3``, unless it is known otherwise."""
        if self.rank is not None:
            return self.rank
        ranks = [match for part in reversed(self.path.parts[-3:]) if (match := _RANK.search(part))]
        return int(ranks[0][1]) if ranks else None

    def named(self, text: str) -> str:
        """Return a message with the path that the user gave for the run."""
        return self.unpacked.named(text) if self.unpacked is not None else text

    def close(self) -> None:
        """Remove the unpacked content of its archive."""
        if self.unpacked is not None:
            self.unpacked.remove()


def detect(path: Path, preferred: Preference = None) -> Walk[DetectedResult]:
    """Find the run at a path, or the runs below it.

    Parameters
    ----------
    preferred
        ``raw`` for raw data only, ``text`` or ``db`` for that form of the vendor's results only, ``parsed`` for both
        of them. By default, where a ``PROF_*`` directory or a result of torch_npu holds raw data too, the raw data if
        it is complete; see :mod:`.raw_or_parsed` and :mod:`.forms`.
    """
    _check_readable(path)
    if kind := foreign_kind(path):
        raise SourceError(f"{path} is {kind}")
    if is_archive(path):
        return _detect_unpacked(unpack(path), preferred)
    if path.is_file() and len(exported_trace.heads_of(path)) > 1:
        return _detect_unpacked(unpack_runs(path, partial(exported_trace.save_runs, path)), preferred)
    return _detect(path, preferred)


def ranks_of_file(path: Path, merged: MergedRanks, problems: Sequence[str] = ()) -> Walk[DetectedResult]:
    """Return the ranks of a file that holds several, each as a run of its own, which exist as long as the results."""
    files: list[Path] = []
    unpacked = unpack_runs(path, lambda folder: files.extend(split(path, merged, folder)))
    runs = [
        DetectedResult(kineto.SOURCE, file, unpacked=unpacked, rank=rank, is_rank_given=True)
        for file, rank in zip(files, merged.ranks, strict=True)
    ]
    hosts = ", ".join(f"rank {rank} is process {host}" for host, rank in zip(merged.hosts, merged.ranks, strict=True))
    problem = f"{path} holds the traces of {len(runs)} ranks, told apart by process: {hosts[:_MOST_HOSTS]}"
    return Walk(runs, [], [*problems, f"{problem}; npuprof.load_set(path, ranks=[...]) numbers them otherwise"])


def _detect_unpacked(unpacked: Unpacked, preferred: Preference) -> Walk[DetectedResult]:
    """Find the runs in an archive; a single top-level folder is ignored."""
    try:
        places = list(unpacked.places())
        place = next((place for place in places if _recognise(place, preferred, given=True)), places[0])
        below = _detect(place, preferred)
    except SourceError as error:
        unpacked.remove()
        left_out_text = "".join(f"; {problem}" for problem in unpacked.left_out)
        raise SourceError(f"{unpacked.named(str(error))}{left_out_text}") from error
    except BaseException:
        unpacked.remove()
        raise
    runs = [replace(run, unpacked=unpacked) for run in below.results]
    problems, left_out = ([unpacked.named(text) for text in texts] for texts in (below.problems, below.left_out))
    return Walk(runs, problems, left_out + unpacked.left_out)


def _detect(path: Path, preferred: Preference) -> Walk[DetectedResult]:
    if runs := _recognise(path, preferred, given=True):
        # Files of a cluster's analysis may have been copied next to the runs.
        beside = _below(path, preferred) if runs[0].source.of_many_runs else Walk[DetectedResult]()
        loose = runs[0].source.only_given and path.is_dir()
        return Walk(
            [*runs, *beside.results], beside.problems, _note_archives(packed_in(path)) if loose else beside.left_out
        )
    below = _below(path, preferred)
    below.results = [*_traces_in(path, preferred), *below.results]
    if not below.results:
        below.results = _folders_of_files(path, preferred)
    if below.results:
        return below
    if path.suffix.lower() in _PAGES:
        raise SourceError(f"{path} is a web page: open it in a browser, or give the result that it was made of")
    problems = "".join(f"; {problem}" for problem in [*below.problems, *below.left_out][:3])
    raise SourceError(
        f"{path} holds {_WANTED[preferred]}: give it a recording of npuprof, a PROF_* directory, "
        f"a result of torch_npu (*_ascend_pt) or MindSpore (*_ascend_ms), one file of a result, or an archive of these"
        f"{_hint(path, preferred)}{problems}"
    )


def _below(path: Path, preferred: Preference) -> Walk[DetectedResult]:
    if not path.is_dir():
        return Walk[DetectedResult]()
    packed = packed_in(path)
    headless = [path] if recording.lacks_its_own_file(path) else []

    def look(directory: Path) -> list[DetectedResult]:
        if recording.lacks_its_own_file(directory):
            headless.append(directory)
        runs = _recognise(directory, preferred)
        packed.extend([] if runs else packed_in(directory))
        return runs or _traces_in(directory, preferred)

    below = walk(path, look, lambda run: not run.source.of_many_runs and run.path.is_dir())
    for run in below.results:
        if run.source.of_many_runs and _first(
            run.path, [source for source in sources_for(preferred) if source.only_given]
        ):
            below.problems.append(
                f"{run.path} holds files of a run beside the analysis of all ranks: load it by itself"
            )
    below.left_out += _note_archives(packed)
    below.left_out += [
        f"{directory} is a recording whose {FILE_NAME} is gone: its steps, Python calls and facts are missing"
        for directory in headless[:_MAX_NAMED]
    ]
    return below


def _traces_in(path: Path, preferred: Preference) -> list[DetectedResult]:
    """Return the traces of torch's profiler directly in a directory: each is a run, of a rank or one of its cycles."""
    if not path.is_dir() or preferred not in kineto.SOURCE.serves:
        return []
    with os.scandir(path) as entries:
        names = sorted(entry.name for entry in islice(entries, _MAX_ENTRIES) if entry.name.endswith(_JSON))
    files = (path / name for name in names)
    return [DetectedResult(kineto.SOURCE, file) for file in files if kineto.recognises(file)]


def _folders_of_files(path: Path, preferred: Preference) -> list[DetectedResult]:
    """Return the folders below a path, such as ``rank_0``, into which files of results were copied."""
    if not path.is_dir():
        return []
    sources = [source for source in sources_for(preferred) if source.only_given]

    def look(directory: Path) -> list[DetectedResult]:
        run = _first(directory, sources, preferred)
        return [] if run is None else [run]

    return walk(path, look).results


def _note_archives(packed: Sequence[Path]) -> list[str]:
    """Return a note on archives that lie among the runs."""
    if not packed:
        return []
    names = ", ".join(str(file) for file in packed[:_MAX_NAMED])
    more = f" and {len(packed) - _MAX_NAMED} more" * (len(packed) > _MAX_NAMED)
    return [f"archives that lie in a directory are not opened ({names}{more}): load each by itself, or unpack it there"]


def _recognise(path: Path, preferred: Preference, *, given: bool = False) -> list[DetectedResult]:
    """Return the run at a path; an analysis of a cluster takes precedence over files of a run in the same folder."""
    sources = [source for source in sources_for(preferred) if given or not source.only_given]
    if not given and folder_of_files.recognises(path):
        sources = [source for source in sources if source is not database.SOURCE]  # the path may lie among copies too
    run = _first(path, sources, preferred)
    if run is None or not run.source.of_many_runs or not path.is_dir():
        return [] if run is None else [run]
    beside = _first(path, [source for source in sources if not source.of_many_runs], preferred)
    return [run] if beside is None else [run, beside]


def _first(path: Path, sources: Sequence[Source], preferred: Preference = None) -> DetectedResult | None:
    choice = ""
    for source in sources:
        if (choice and not source.is_raw) or not source.recognises(path):
            continue
        has_raw = (
            preferred is None and source.is_result_of_raw and any(raw.recognises(path) for raw in sources_for("raw"))
        )
        if has_raw:
            if problem := raw_problem(path):
                message = "the vendor's result is shown; source='raw' shows the raw data, which is not complete"
                return DetectedResult(source, path, f"{message}: {problem}")
            choice = "raw data is shown; source='parsed' shows the vendor's result of it, which is here too"
            continue
        return DetectedResult(source, path, choice)
    return None


def _hint(path: Path, preferred: Preference) -> str:
    if path.name.startswith("OPPROF_") or (path / "OpBasicInfo.csv").is_file():
        return "; this is a result of msopprof, which measures one operator: open it with MindStudio Insight"
    if path.is_file() and (fault := fault_of_spreadsheet(path)):
        return f"; it {fault}"
    if preferred in ("text", "db", "parsed"):
        return (
            "; `msprof --export=on --output=PATH` makes results of PROF_* directories, `analyse(PATH)` of "
            "torch_npu.profiler.profiler or mindspore.profiler.profiler those of a framework; without "
            f'source="{preferred}" whatever else is there is read'
        )
    entries = sorted(islice(path.iterdir(), _MAX_TRIED)) if path.is_dir() else []
    if files := [file for file in entries if single_file.recognises(file)]:
        names = ", ".join(file.name for file in files[:_MAX_NAMED])
        return f"; it holds files of a result under other names, which can be read one at a time: give {names}"
    if other := foreign_below(path):
        return f"; {other}"
    around = next((parent for parent in islice(path.parents, _MAX_AROUND) if _recognise(parent, preferred)), None)
    return f"; it is a part of {around}, which can be read: give that" if around else ""


def _check_readable(path: Path) -> None:
    try:
        if path.is_dir():
            if kernel := _kernel_tree(path):
                raise _of_kernel(path, kernel)
            if next(path.iterdir(), None) is None:
                raise SourceError(f"{path} is an empty directory: give the path of a recording or a result")
        elif not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would block until another process writes to it
            raise SourceError(
                f"{path} is a pipe, socket or device, not a file: save its content to a file, and give that"
            )
        elif kernel := _kernel_tree(path):
            raise _of_kernel(path, kernel)
        else:
            with path.open("rb") as file:
                head = file.read(len(_LFS_POINTER))
            _check_head(path, head)
    except FileNotFoundError as error:
        raise SourceError(f"{path} does not exist: check the path (the working directory is {Path.cwd()})") from error
    except OSError as error:
        raise SourceError(f"{path} cannot be read ({error.strerror or error}): check its permissions") from error


def _of_kernel(path: Path, tree: str) -> SourceError:
    return SourceError(
        f"{path} is a part of {tree}, where the kernel shows its state, not files: give the directory of a "
        "recording or a result"
    )


def _kernel_tree(path: Path) -> str:
    """Return the tree of the kernel in which a path lies, such as ``/proc``; empty for a path of files."""
    real = Path(os.path.realpath(path))
    tree = next((tree for tree in _KERNEL_TREES if real.is_relative_to(tree)), "")
    return "" if real.is_relative_to(_SHARED_MEMORY) else tree


def _check_head(path: Path, head: bytes) -> None:
    if not head:
        raise SourceError(f"{path} is empty: the tool that wrote it was stopped, or the copy failed")
    if head == _LFS_POINTER:
        raise SourceError(f"{path} is a git-LFS pointer, not the data: run `git lfs pull` in its repository")
    refuse_other_archive(path, head)
