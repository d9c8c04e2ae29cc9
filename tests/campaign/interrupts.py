"""Ctrl-C between any two lines of loading, profiling, saving and drawing: nothing is lost, and a second try succeeds.

Each case is run once to count its lines, then with an interrupt before one of them: before each where they are few,
else before as many as :data:`_MOST`, spread over all of them.
"""

from __future__ import annotations

import gc
import io
import random
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import npuprof
from npuprof.errors import NpuprofError, SessionError
from npuprof.loading import open_path
from npuprof.notebook.controller import kept_when_interrupted
from npuprof.notebook.report import show_run
from npuprof.options import Options
from npuprof.profiles.profile import Profile
from npuprof.ranks.profile_set import ProfileSet
from npuprof.session import active as running
from npuprof.session.session import Session
from npuprof.simulator import npu
from tests.campaign.fuzz import seeds
from tests.campaign.tally import Tally, peak_mib
from tests.interrupts import interrupted, lines
from tests.sources.files.packing import pack

_MOST = 40
_LOADED = ("text", "database", "msprof", "raw", "framework and device", "kineto", "recording", "saved")


class _Ours:
    """The names of npuprof's modules but the simulated NPU's: it stands for native code, which no interrupt enters."""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.startswith("npuprof.") and not name.startswith("npuprof.simulator")


@dataclass(frozen=True)
class Attempt:
    """What is interrupted, and what looks for harm afterwards; both are made anew for each interrupt."""

    call: Callable[[], object]
    finds: Callable[[], Iterable[str]]


def run(folder: Path) -> list[Tally]:
    """Interrupt every case."""
    folder.mkdir()
    before, tempfile.tempdir = tempfile.tempdir, str(folder / "temporary")
    Path(tempfile.tempdir).mkdir()
    try:
        return [tried(name, case, folder / name.replace(" ", "_")) for name, case in _cases(folder).items()]
    finally:
        tempfile.tempdir = before


def _temporary() -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob("npuprof-*"))


def tried(name: str, case: Callable[[Path], Attempt], folder: Path) -> Tally:
    """Interrupt one case again and again."""
    tally = Tally(f"interrupts {name}")
    begin = time.monotonic()
    folder.mkdir()
    numbers = count()
    for _ in range(2):  # the first imports what is imported late
        attempt = case(folder / str(next(numbers)))
        total = lines(attempt.call, _Ours())
        tally.finds += attempt.finds()
    places = range(total) if total <= _MOST else sorted(random.Random(1).sample(range(total), _MOST))
    for line in places:
        tally.tried += 1
        attempt = case(folder / str(next(numbers)))
        try:
            interrupted(attempt.call, _Ours(), line)
            gc.collect()
            found = list(attempt.finds())
        except Exception as error:  # noqa: BLE001 - a find
            tally.crashes += 1
            where = traceback.extract_tb(error.__traceback__)[-1]
            found = [f"{type(error).__name__} in {Path(where.filename).name}, {where.name}: {error}"[:300]]
        else:
            tally.losses += bool(found)
        tally.finds += [f"{find} (line {line} of {total})" for find in found if not _is_known(find, tally.finds)]
    tally.peak_mib = peak_mib()
    tally.seconds = time.monotonic() - begin
    return tally


def _is_known(find: str, finds: Iterable[str]) -> bool:
    return any(known.startswith(find) for known in finds)


def _cases(folder: Path) -> Mapping[str, Callable[[Path], Attempt]]:
    paths = {name: seeds.write(name, folder / "seeds" / name.replace(" ", "_")) for name in _LOADED}
    ranks = folder / "ranks"
    for rank in range(2):
        seeds.write("text", ranks / str(rank))
    archive = pack(paths["text"], folder / "text.zip")
    profile = npuprof.load(paths["recording"])
    return {
        **{f"load {name}": _loading(path) for name, path in paths.items()},
        "load archive": _loading(archive),
        "load set": _reading_set(ranks),
        "start": _profiling(_start, _nothing),
        "step": _profiling(_nothing, _step),
        "stop": _profiling(_nothing, Session.stop),
        "save": _writing(folder / "whole save", lambda place: profile.save(place / "saved")),
        "to_html": _writing(folder / "whole page", lambda place: profile.to_html(place / "good.html")),
        "export": _writing(folder / "whole trace", lambda place: profile.to_chrome_trace(place / "good.json.gz")),
        "report": lambda _: _drawing(profile),
    }


def _loading(path: Path) -> Callable[[Path], Attempt]:
    def rows() -> dict[str, int]:
        return {name: len(frame) for name, frame in npuprof.load(path).tables.items()}

    before, files = rows(), content(path)

    def finds() -> Iterator[str]:
        if rows() != before:
            yield "a second load has other rows"
        if content(path) != files:
            yield "the input is changed"
        yield from (f"{left.name[:8]} stays in the directory of temporary files" for left in _temporary())

    return lambda _: Attempt(lambda: npuprof.load(path), finds)


def _reading_set(folder: Path) -> Callable[[Path], Attempt]:
    def opened() -> ProfileSet:
        found = open_path(folder)
        assert isinstance(found, ProfileSet)
        return found

    whole = opened().table("kernels")

    def case(_: Path) -> Attempt:
        runs = opened()

        def finds() -> Iterator[str]:
            if not set(runs.info["state"]) <= {"found", "loaded"} or runs.failed:
                yield "an interrupted run counts as failed"
            if not runs.table("kernels").equals(whole):
                yield "a second table has other rows"

        return Attempt(lambda: runs.read(processes=1).table("kernels"), finds)

    return case


def _nothing(_: Session) -> None:
    pass


def _start(session: Session) -> None:
    session.start()


def _step(session: Session) -> None:
    npuprof.mark("between")
    session.step()


def _profiling(start: Callable[[Session], object], end: Callable[[Session], object]) -> Callable[[Path], Attempt]:
    """Interrupt one part of a run; the parts before it were not interrupted."""

    def case(place: Path) -> Attempt:
        session = Session(Options(collector="simulator", activities=("cpu", "npu"), output=place))
        if start is _nothing:
            session.start()
            npu.ones((4, 4)) @ npu.ones((4, 4))
            session.step()
        return Attempt(lambda: (start(session), end(session)), lambda: _of_session(session, place, start is _nothing))

    return case


def _of_session(session: Session, place: Path, was_begun: bool) -> Iterator[str]:
    with suppress(SessionError):
        session.stop()
    if running.current() is not None:
        yield "a run that was stopped goes on"
        running.current().abandon()  # type: ignore[union-attr]  # the next case needs the place
    with Session(Options(collector="simulator", activities=("npu",), output=place / "next")):
        pass
    for directory in place.glob("run_*"):
        found = npuprof.load(directory)
        if was_begun and not (len(found.steps) and len(found.kernels)):
            yield f"the recording has {len(found.steps)} steps and {len(found.kernels)} kernels"
    if was_begun and not list(place.glob("run_*")):
        yield "there is no recording"
    yield from _parts(place)


def _writing(place: Path, write: Callable[[Path], object]) -> Callable[[Path], Attempt]:
    """Interrupt a writer where good files of its names are already."""

    def begun(folder: Path) -> Path:
        folder.mkdir(parents=True)
        for name in ("good.html", "good.json.gz"):
            (folder / name).write_bytes(b"good")
        return folder

    write(begun(place))
    wanted = content(place)

    def case(folder: Path) -> Attempt:
        begun(folder)

        def finds() -> Iterator[str]:
            for path, held in content(folder).items():
                if held != b"good" and len(held) != len(wanted.get(path, b"")):
                    yield f"{path} is neither the old file nor the new one"
            yield from _parts(folder)
            if not (folder / "saved").exists():
                write(folder)
            if set(content(folder)) != set(wanted):
                yield f"after a second try there are {sorted(content(folder))}"

        return Attempt(lambda: write(folder), finds)

    return case


def _drawing(profile: Profile) -> Attempt:
    told: list[str] = []

    def draw() -> None:
        try:
            with redirect_stdout(io.StringIO()), kept_when_interrupted(lambda: profile.info.recording):
                show_run(profile)
        except NpuprofError as error:
            told.append(str(error))
            raise KeyboardInterrupt from None

    def finds() -> Iterator[str]:
        if told and str(profile.info.recording) not in told[0]:
            yield f"the line does not say where the run is: {told[0]}"
        show = io.StringIO()
        with redirect_stdout(show):
            show_run(profile)
        if "could not be made" in show.getvalue():
            yield "a second report lacks a part"

    return Attempt(draw, finds)


def _parts(place: Path) -> Iterator[str]:
    yield from ("a part of a file stays" for _ in place.rglob("*.part"))


def content(path: Path) -> dict[str, bytes]:
    """Return the files at a path, by their names below it."""
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    return {str(file.relative_to(path)): file.read_bytes() for file in files}
