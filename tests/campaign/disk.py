"""A disk that fills up while npuprof writes: what was there stays, and the error says what the disk lacks.

On a small tmpfs of its own, which needs root; elsewhere the part says so and counts nothing.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TypeAlias

import npuprof
from npuprof.errors import NpuprofError, NpuprofWarning
from npuprof.profiles.profile import Profile
from npuprof.session import active as running
from npuprof.simulator import npu
from tests.campaign.fuzz import seeds
from tests.campaign.speed import slowness
from tests.campaign.tally import Tally, peak_mib

_SIZES_KIB = (64, 256, 512, 1024, 2048, 4096)
_FILLED_SHARES = (0.0, 0.5, 0.9, 1.0)
_TIMEOUT_S = 60.0
_GOOD = dict.fromkeys(("good.html", "good.json.gz", "good.txt", "good.csv", "good.xlsx"), b"good" * 16)
_Writer: TypeAlias = Callable[[Profile, Path], object]


def _profile(_: Profile, disk: Path) -> None:
    with npuprof.profile(collector="simulator", output=disk / "runs"):
        array = npu.ones((64, 64))
        for _step in range(50):
            array = array @ array * 0


_WRITERS: Mapping[str, _Writer] = {
    "profile": _profile,
    "save": lambda run, disk: run.save(disk / "saved"),
    "to_html": lambda run, disk: run.to_html(disk / "good.html"),
    "to_chrome_trace": lambda run, disk: run.to_chrome_trace(disk / "good.json.gz"),
    "to_folded_stacks": lambda run, disk: run.to_folded_stacks(disk / "good.txt"),
    "to_memory_timeline": lambda run, disk: run.to_memory_timeline(disk / "good.html"),
    "to_csv": lambda run, disk: run.to_csv(disk / "good.csv", "kernels"),
    "to_xlsx": lambda run, disk: run.to_xlsx(disk / "good.xlsx"),
}


class _NoEndError(BaseException):
    """A writer took too long."""


def run(folder: Path) -> list[Tally]:
    """Fill small disks while every writer writes to them."""
    tally = Tally("disk")
    begin = time.monotonic()
    folder.mkdir()
    if os.geteuid() != 0:
        tally.finds.append("not tried: only root can mount a small disk")
        return [tally]
    warnings.simplefilter("ignore", NpuprofWarning)
    signal.signal(signal.SIGALRM, _end)
    loaded = npuprof.load(seeds.write("text", folder / "seed"))
    limit_s = _TIMEOUT_S * slowness()
    for name, write in _WRITERS.items():
        write(loaded, folder)  # imports what is imported late
        for size_kib in _SIZES_KIB:
            for share in _FILLED_SHARES:
                with _disk(folder / "disk", f"size={size_kib}k") as disk:
                    _try(tally, f"{name} on {size_kib} KiB, {share:.0%} full", disk, loaded, write, share, limit_s)
        with _disk(folder / "disk", "size=8m,nr_inodes=4") as disk:
            _try(tally, f"{name} without inodes", disk, loaded, write, 0.0, limit_s)
    tally.peak_mib = peak_mib()
    tally.seconds = time.monotonic() - begin
    return [tally]


def _try(tally: Tally, words: str, disk: Path, loaded: Profile, write: _Writer, share: float, limit_s: float) -> None:
    tally.tried += 1
    good = dict(list(_GOOD.items())[: 2 if "inodes" in words else None])
    for name, content in good.items():
        (disk / name).write_bytes(content)
    if share:
        free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
        (disk / "filler").write_bytes(bytes(int(free * share)))
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        write(loaded, disk)
    except NpuprofError:
        refused = True
    except _NoEndError:
        tally.hangs += 1
        tally.finds.append(f"{words}: no end")
        return
    except Exception as error:  # noqa: BLE001 - a find
        tally.crashes += 1
        tally.finds.append(f"{words}: {type(error).__name__}: {error}"[:300])
        return
    else:
        refused = False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    harmed = [name for name in good if refused and (disk / name).read_bytes() != good[name]]
    left = [path.name for path in disk.rglob("*.part")] if refused else []
    for what in (harmed and f"{harmed}, which was there before, is harmed", left and f"a part stays: {left}"):
        if what:
            tally.losses += 1
            tally.finds.append(f"{words}: {what}")
    if running.current() is not None:
        tally.losses += 1
        tally.finds.append(f"{words}: the run goes on")
        running.current().abandon()  # type: ignore[union-attr]  # the next one needs the place


def _end(_number: int, _frame: FrameType | None) -> None:
    raise _NoEndError


@contextmanager
def _disk(place: Path, options: str) -> Iterator[Path]:
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "npuprof-campaign", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
