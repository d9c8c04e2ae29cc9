"""A disk that fills up while npuprof writes: what was there stays, and the error says what the disk lacks.

On a small tmpfs of its own, which needs root; elsewhere the part says so and counts nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.campaign.speed import slowness
from tests.campaign.tally import Tally

_SIZES_KIB = (64, 256, 512, 1024, 2048, 4096)
_FILLED_SHARES = (0.0, 0.5, 0.9, 1.0)
_TIMEOUT_S = 60.0
_WRITERS = {
    "profile": "with npuprof.profile(collector='simulator', output=disk / 'runs'): work()",
    "save": "run.save(disk / 'saved')",
    "to_html": "run.to_html(disk / 'good.html')",
    "to_chrome_trace": "run.to_chrome_trace(disk / 'good.json.gz')",
    "to_folded_stacks": "run.to_folded_stacks(disk / 'good.txt')",
    "to_memory_timeline": "run.to_memory_timeline(disk / 'good.html')",
}
_CHILD = """
import sys
from pathlib import Path
import npuprof
from npuprof.errors import NpuprofError
from tests.campaign.fuzz import seeds
disk, seed, statement = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
run = npuprof.load(seed)
def work():
    from npuprof.simulator import npu
    a = npu.ones((64, 64))
    for _ in range(50):
        a = a @ a * 0
try:
    exec(statement)
except NpuprofError as error:
    print("refused", error)
else:
    print("done")
"""


def run(folder: Path) -> list[Tally]:
    """Fill small disks while every writer writes to them."""
    from tests.campaign.fuzz import seeds

    tally = Tally("disk")
    begin = time.monotonic()
    folder.mkdir()
    if os.geteuid() != 0:
        tally.finds.append("not tried: only root can mount a small disk")
        return [tally]
    seed = seeds.write("text", folder / "seed")
    for size_kib in _SIZES_KIB:
        for share in _FILLED_SHARES:
            for name, statement in _WRITERS.items():
                with _disk(folder / "disk", f"size={size_kib}k") as disk:
                    _try(tally, f"{name} on {size_kib} KiB, {share:.0%} full", disk, seed, statement, share)
    for name, statement in _WRITERS.items():
        with _disk(folder / "disk", "size=8m,nr_inodes=4") as disk:
            _try(tally, f"{name} without inodes", disk, seed, statement, 0.0)
    tally.seconds = time.monotonic() - begin
    return [tally]


def _try(tally: Tally, words: str, disk: Path, seed: Path, statement: str, share: float) -> None:
    tally.tried += 1
    good = dict.fromkeys(("good.html", "good.json.gz", "good.txt"), b"good" * 16)
    for name, content in list(good.items())[: 2 if "inodes" in words else 3]:
        (disk / name).write_bytes(content)
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    if share:
        (disk / "filler").write_bytes(bytes(int(free * share)))
    command = [sys.executable, "-c", _CHILD, str(disk), str(seed), statement]
    try:
        child = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S * slowness(), check=False)
    except subprocess.TimeoutExpired:
        tally.hangs += 1
        tally.finds.append(f"{words}: no end")
        return
    if child.returncode or not child.stdout.strip():
        tally.crashes += 1
        tally.finds.append(f"{words}: {child.stderr.strip().splitlines()[-1:]}"[:300])
        return
    for name in good:
        path = disk / name
        harmed = path.is_file() and path.read_bytes() != good[name] and child.stdout.startswith("refused")
        if harmed:
            tally.losses += 1
            tally.finds.append(f"{words}: {name}, which was there before, is harmed")
    if child.stdout.startswith("refused") and list(disk.rglob("*.part")):
        tally.losses += 1
        tally.finds.append(f"{words}: a part of a file is left behind")


@contextmanager
def _disk(place: Path, options: str) -> Iterator[Path]:
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "npuprof-campaign", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
