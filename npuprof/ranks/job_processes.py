"""The processes of a job as runs of a set: recordings of ranks, and the missing others."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from npuprof.errors import NpuprofError, SourceError
from npuprof.recordings.job_folder import JobFile, Process, processes
from npuprof.recordings.recording import Recording
from npuprof.sources.decoding import decode_run
from npuprof.sources.detect import DetectedResult
from npuprof.words.quantities import counted

_TABLES_OF_WORK = ("kernels", "tasks", "communication", "operators")
_MOST_NAMED = 16
_UNBORN = (0, 0)
_AT_LEAST = "there may have been more, which were not seen: with -I, -E or -S, or another environment"


@dataclass(frozen=True)
class JobProcesses:
    """A job, from the files of its folder."""

    # folder, file: the folder, and what its file has.
    folder: Path
    file: JobFile
    processes: Sequence[Process]  # the processes, in the order in which they began

    @classmethod
    def read(cls, folder: Path) -> JobProcesses | None:
        """Return the job of a folder; None if the folder is of no job."""
        file = JobFile.read(folder) if folder.is_dir() else None
        return None if file is None else cls(folder, file, processes(folder))

    def runs(self, results: Sequence[DetectedResult]) -> list[DetectedResult]:
        """Return the results that are runs of the set, with ranks in the order of their starts if none has any.

        The recording of the process whose cell it is counts only if it used a front end itself.
        """
        of_notebook = [run for run in results if self._is_own(run)]
        others = [run for run in results if not self._is_own(run)]
        described = [(run, run.describe()) for run in others]
        if not any(info.rank is not None for _, info in described):
            described.sort(key=lambda each: (_born(each[0].path), each[1].started_ns or 0))
            others = [replace(run, rank=number) for number, (run, _) in enumerate(described)]
        if others and not (
            self.file.notebook_worked if self.file.notebook_worked is not None else any(map(_worked, of_notebook))
        ):
            return others
        return [*of_notebook, *others]

    def _is_own(self, run: DetectedResult) -> bool:
        return bool(self.file.notebook) and run.path.name == self.file.notebook

    @property
    def going_on(self) -> list[Process]:
        """The processes that are still recording on this machine."""
        host = platform.node()
        return [each for each in self.processes if each.path and not each.ended and each.is_alive(host)]

    def problems(self) -> list[str]:
        """Return the missing parts of the job, in sentences."""
        going_on = self.going_on
        sentences = list(self.file.problems)
        sentences += [
            f"{each.title} goes on: refresh() of the set reads what it has recorded once it has ended"
            for each in going_on[:_MOST_NAMED]
        ]
        lost = [each for each in self.processes if each.path and not each.ended and each not in going_on]
        sentences += [
            f"{each.title} ended before it could write its recording, killed or by a crash: what it had written by "
            "then is shown"
            for each in lost[:_MOST_NAMED]
        ]
        for listed in (going_on, lost):
            if listed[_MOST_NAMED:]:
                sentences.append(f"so do {counted(len(listed) - _MOST_NAMED, 'other process', 'other processes')}")
        sentences += [
            f"{each.title} imported no front end: nothing is recorded of it"
            for each in self.processes
            if each.rank is not None and not each.path and not each.unprofiled and not each.module
        ][:_MOST_NAMED]
        reasons = Counter(each.unprofiled for each in self.processes if each.unprofiled)
        for reason, count in reasons.most_common(_MOST_NAMED):
            sentences.append(f"{counted(count, 'process', 'processes')} ran unprofiled ({reason}); {_AT_LEAST}")
        if self.file.unknown:
            unknown = counted(self.file.unknown, "Python process", "Python processes")
            sentences.append(f"{unknown} ran unprofiled, without npuprof's start-up hook; {_AT_LEAST}")
        if not any(each.path for each in self.processes):
            began = counted(len(self.processes), "Python process", "Python processes")
            sentences.append(
                f"no process that the cell started was profiled: {began} began, and none imported a front end; "
                "short ones with -I, -E or -S, or without npuprof, may not have been seen"
            )
        return sentences


def _born(path: Path) -> tuple[int, int]:
    """Return the start tick and the number of the process of a recording; zeros if they are unknown."""
    try:
        born = Recording.read(path).process.get("born")
    except NpuprofError:
        return _UNBORN
    if not isinstance(born, list) or len(born) != len(_UNBORN) or not all(isinstance(part, int) for part in born):
        return _UNBORN
    return born[0], born[1]


def _worked(run: DetectedResult) -> bool:
    """Return whether a run has anything of a device or a framework."""
    try:
        tables = decode_run(run).tables
    except SourceError:
        return False
    return any(len(tables.get(name, ())) for name in _TABLES_OF_WORK)
