"""Load the result of a front end or of npuprof from disk: one run, or a set of runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from npuprof.errors import NpuprofError, OptionsError, SourceError
from npuprof.options.load_arguments import FORMS
from npuprof.parameters import checked
from npuprof.profiles.profile import Profile
from npuprof.ranks.given_ranks import with_ranks
from npuprof.ranks.job_processes import JobProcesses
from npuprof.sources import kineto
from npuprof.sources.base import Decoded, Preference
from npuprof.sources.decoding import decode_run
from npuprof.sources.detect import DetectedResult, detect, ranks_of_file
from npuprof.sources.files.walk import Walk
from npuprof.sources.kineto.merged import SeveralRanksError
from npuprof.sources.selection import Moment, Selection, choose
from npuprof.sources.unread import UnreadRun, unread

if TYPE_CHECKING:
    from distributed import Client

    from npuprof.profiles.comparison import Comparison
    from npuprof.ranks.profile_set import ProfileSet


@overload
def load(
    path: str | PathLike[str],
    *,
    client: Client,
    source: Preference = None,
    steps: int | Iterable[int] | None = None,
    start: Moment | None = None,
    end: Moment | None = None,
    code_root: str | PathLike[str] | None = None,
    chip: str | None = None,
) -> ProfileSet: ...


@overload
def load(
    path: str | PathLike[str],
    *,
    source: Preference = None,
    steps: int | Iterable[int] | None = None,
    start: Moment | None = None,
    end: Moment | None = None,
    client: None = None,
    code_root: str | PathLike[str] | None = None,
    chip: str | None = None,
) -> Profile | Any: ...


@checked
def load(
    path: str | PathLike[str],
    *,
    source: Preference = None,
    steps: int | Iterable[int] | None = None,
    start: Moment | None = None,
    end: Moment | None = None,
    client: Client | None = None,
    code_root: str | PathLike[str] | None = None,
    chip: str | None = None,
) -> Profile | Any:
    """Open the result of an Ascend front end, or of npuprof, at a path.

    Parameters
    ----------
    path
        A recording, a saved profile, a ``PROF_*`` or torch_npu directory, one of its files, a directory around any of
        these, or an archive (``.zip``, ``.tar``, ``.tar.gz``, ``.tgz``). Never modified.
    source
        The form to read if a run has several: ``"raw"`` data, ``"text"`` (the vendor's CSV and JSON files), ``"db"``,
        or ``"parsed"`` (both of these). By default raw data if complete; else each table from the form that
        has it. A note has the reason.
    steps
        Numbers of the steps to read, as in ``run.steps``: rows within their intervals, and tasks that they launched.
    start, end
        The half-open interval to read: integer nanoseconds since the UTC epoch, a time stamp (``pd.Timestamp``,
        ``datetime``; UTC if it has no zone), or a ``pd.Timedelta`` since the run's start, or else its first row. Rows
        that overlap it are kept whole, with their callers; intervals of `overlap` are clipped. A note tells of none.
    client
        A Dask client (``npuprof[cluster]``), whose workers read small files of many ranks; by default the active one.
    code_root
        The folder in which :meth:`npuprof.Profile.code` finds files of which a result does not have the text.
    chip
        The chip that ran it, such as ``"910B3"``, if a result names none; counters that show another one count more.

    Returns
    -------
    The profile, of a large result read when it is first used: its files must stay till then. For several runs, a
    :class:`npuprof.ProfileSet`, typed as ``Any``; :func:`load_set` returns one.

    Raises
    ------
    SourceError
        If nothing at the path can be read, or the run lacks a requested step.
    OptionsError
        If an argument has a wrong value, or both steps and an interval are given.
    """
    return open_path(
        path, source=source, steps=steps, start=start, end=end, client=client, code_root=code_root, chip=chip
    )


@checked
def load_set(
    path: str | PathLike[str],
    *,
    source: Preference = None,
    steps: int | Iterable[int] | None = None,
    start: Moment | None = None,
    end: Moment | None = None,
    client: Client | None = None,
    code_root: str | PathLike[str] | None = None,
    chip: str | None = None,
    ranks: Sequence[int] | Mapping[str, int] | None = None,
) -> ProfileSet:
    """Open all runs at a path as a set, even if there is only one; each run is read on first use.

    Parameters
    ----------
    path, source, steps, start, end, client, code_root, chip
        See :func:`load`.
    ranks
        The rank of each run, where its files name none or another one: a list in the order of the paths, in which
        numbers count as numbers (``node2`` comes before ``node10``), or ranks by path or file name.

    Raises
    ------
    SourceError
        If nothing at the path can be read.
    OptionsError
        If an argument has a wrong value, both steps and a time range are given, `code_root` is no folder, no chip
        has that name, or `ranks` does not fit the runs.
    """
    given = _Given(_folder(code_root), _chip_named(chip))
    root, walked, selection = _detect(path, source, steps, start, end)
    if len(walked.results) == 1 and walked.results[0].source is kineto.SOURCE and walked.results[0].unpacked is None:
        file = walked.results[0].path
        if (merged := kineto.ranks_in(file)) is not None:
            walked = ranks_of_file(file, merged, walked.left_out)
    if ranks is not None:
        walked = with_ranks(root, walked, ranks)
    return _as_set(root, walked, selection, client, given)


@checked
def compare(
    a: Profile | ProfileSet | str | PathLike[str] | Sequence[Profile | ProfileSet | str | PathLike[str]],
    b: Profile | ProfileSet | str | PathLike[str] | Sequence[Profile | ProfileSet | str | PathLike[str]],
    *,
    names: tuple[str, str] | None = None,
) -> Comparison:
    """Compare two runs, or two sets of ranks: how much longer a step of `a` is, and where that time goes.

    Parameters
    ----------
    a, b
        Results of :func:`load`, or paths to load. The ranks of a set that both sides have are compared one by one. A
        list has several runs of the same program, which tell how much varies from run to run.
    names
        Names of `a` and `b` in texts and figures; by default name and cell of each.

    Returns
    -------
    The difference, the same as ``a - b``.

    Raises
    ------
    SourceError
        If nothing can be read at a path.
    NpuprofError
        If a side has no kernels, no NPU tasks and no step times.
    """
    from npuprof.profiles.comparison import Comparison

    return Comparison.of(_runs(a), _runs(b), names)


def open_path(
    path: str | PathLike[str],
    *,
    source: Preference = None,
    steps: int | Iterable[int] | None = None,
    start: Moment | None = None,
    end: Moment | None = None,
    client: Client | None = None,
    code_root: str | PathLike[str] | None = None,
    chip: str | None = None,
) -> Profile | ProfileSet:
    """Return a profile for one run, or a set for several; see :func:`load`."""
    given = _Given(_folder(code_root), _chip_named(chip))
    root, walked, selection = _detect(path, source, steps, start, end)
    if client is not None or len(walked.results) > 1:
        return _as_set(root, walked, selection, client, given)
    run = walked.results[0]
    problems = [f"there may be more runs: {problem}" for problem in walked.problems] + walked.left_out
    if selection is None and (later := unread(run, [(root.name, problem) for problem in problems])) is not None:
        return given.profile(later)
    try:
        decoded = decode_run(run, selection, lazily=True)
    except SeveralRanksError as error:
        if run.unpacked is None:
            return _as_set(root, ranks_of_file(run.path, error.merged, problems), selection, client, given)
        run.close()
        raise SourceError(run.named(str(error))) from error
    except BaseException as error:
        run.close()
        if run.unpacked is not None and isinstance(error, SourceError):
            raise SourceError(run.named(str(error))) from error
        raise
    run.close()
    for problem in problems:
        decoded.notes.warning(root.name, problem)
    return given.profile(decoded)


def _detect(
    path: str | PathLike[str],
    source: Preference,
    steps: int | Iterable[int] | None,
    start: Moment | None,
    end: Moment | None,
) -> tuple[Path, Walk[DetectedResult], Selection | None]:
    if source is not None and source not in FORMS:
        raise OptionsError(f"source is {source!r}, but must be 'text', 'db', 'raw', 'parsed' or None")
    selection = choose(steps, start, end)
    root = _root(path)
    return root, _of_job(root, detect(root, source)), selection


def _root(path: str | PathLike[str]) -> Path:
    """Return a path that a file can have; raise a SourceError for another one."""
    text = fspath(path)
    if not text:
        raise SourceError('the path is empty: name a recording or a result; "." is the working directory')
    if "\0" in text:
        raise SourceError(f"the path {text!r} has a NUL character, which no name of a file has: check how it was made")
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise SourceError(f"{text} begins with the home directory of a user who has none here: check it") from error


def _of_job(root: Path, walked: Walk[DetectedResult]) -> Walk[DetectedResult]:
    """Return the ranks and missing parts of a job directory; for other directories, what was found."""
    job = JobProcesses.read(root)
    if job is None:
        return walked
    return Walk(job.runs(walked.results), walked.problems, [*walked.left_out, *job.problems()])


def _folder(code_root: str | PathLike[str] | None) -> Path | None:
    """Return the folder with the code; raise an OptionsError if it is none."""
    if code_root is None:
        return None
    folder = Path(code_root).expanduser()
    if not folder.is_dir():
        raise OptionsError(f"code_root is {str(folder)!r}, which is no folder: name the one with the code that ran")
    return folder


class _Given(NamedTuple):
    """What the caller states about runs: the folder of their code and the chip's name, empty if unknown."""

    code_root: Path | None
    chip: str

    def profile(self, decoded: Decoded | UnreadRun) -> Profile:
        """Return a run."""
        made = Profile(decoded, self.code_root)
        if self.chip:
            made.info.chip = self.chip
        return made


def _chip_named(chip: str | None) -> str:
    """Return the whole name of a chip; raise an OptionsError if none has that name."""
    if chip is None:
        return ""
    from npuprof.analysis.chip_limits import chip as limits  # with pandas and NumPy

    return limits(chip).name


def _as_set(
    root: Path,
    walked: Walk[DetectedResult],
    selection: Selection | None,
    client: Client | None,
    given: _Given,
) -> ProfileSet:
    from npuprof.ranks.profile_set import ProfileSet  # 25 ms that one run does not need

    try:
        return ProfileSet(root, walked.results, [*walked.problems, *walked.left_out], selection, client, *given)
    except BaseException:
        walked.results[0].close()
        raise


def _runs(
    side: Profile | ProfileSet | str | PathLike[str] | Sequence[Profile | ProfileSet | str | PathLike[str]],
) -> list[Iterable[Profile]]:
    """Return the ranks of each run of a side."""
    runs = side if isinstance(side, Sequence) and not isinstance(side, str) else [side]
    if not runs:
        raise NpuprofError("a side of compare() is an empty list: give it at least one run")
    opened = [open_path(run) if isinstance(run, (str, PathLike)) else run for run in runs]
    return [[run] if isinstance(run, Profile) else run for run in opened]
