"""Files of gigabytes with nothing in them: what reads each of them stays under 500 MB of memory.

Sparse files say that they have 4 GB, and packed ones unpack to 3 GB. Each is loaded in a process of its own.
"""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.campaign.fuzz import seeds
from tests.campaign.speed import slowness
from tests.campaign.tally import Tally

_SPARSE_BYTES, _UNPACKED_BYTES = 4 << 30, 3 << 30
_MOST_MIB = 500
_TIMEOUT_S = 60.0
_PART_BYTES = 16 << 20
_CHILD = """
import json, sys
import npuprof
from npuprof.errors import NpuprofError
from tests.campaign.tally import peak_mib
try:
    run = npuprof.load(sys.argv[1])
    told = " ".join(run.notes["message"].astype(str))
except NpuprofError as error:
    told = str(error)
print(json.dumps([peak_mib(), told[:300]]))
"""


def run(folder: Path) -> list[Tally]:
    """Load each of them."""
    folder.mkdir()
    tally = Tally("bombs")
    begin = time.monotonic()
    limit_s = _TIMEOUT_S * slowness()
    for name, path in _bombs(folder):
        tally.tried += 1
        command = [sys.executable, "-c", _CHILD, str(path)]
        try:
            child = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit_s)
        except subprocess.TimeoutExpired:
            tally.hangs += 1
            tally.finds.append(f"{name}: no end after {limit_s:.0f} s")
            continue
        if child.returncode:
            tally.crashes += 1
            tally.finds.append(f"{name}: {child.stderr.strip().splitlines()[-1:]}"[:300])
            continue
        peak, told = json.loads(child.stdout)
        tally.peak_mib = max(tally.peak_mib, peak)
        if peak >= _MOST_MIB:
            tally.losses += 1
            tally.finds.append(f"{name}: {peak} MiB, and not less than {_MOST_MIB}; {told}")
    tally.seconds = time.monotonic() - begin
    return [tally]


def _bombs(folder: Path) -> Iterator[tuple[str, Path]]:
    for number, (name, (seed, file)) in enumerate(_SPARSE.items()):
        path = seeds.write(seed, folder / str(number))
        grown = path if path.is_file() else next(path.rglob(file))
        with grown.open("r+b") as opened:
            opened.truncate(_SPARSE_BYTES)
        yield name, path
    for name, write in _PACKED.items():
        path = folder / name
        write(path)
        yield name, path
        path.unlink()


def _zeros(first: bytes = b"") -> Callable[[Path], None]:
    def write(path: Path) -> None:
        part = gzip.compress(bytes(_PART_BYTES))
        with path.open("wb") as file:
            file.write(gzip.compress(first, compresslevel=1))
            for _ in range(_UNPACKED_BYTES // _PART_BYTES):
                file.write(part)

    return write


def _later(first: Callable[[], bytes]) -> Callable[[Path], None]:
    return lambda path: _zeros(first())(path)


def _rows() -> bytes:
    """Return a table larger than what is looked at before a file is taken for a bomb."""
    chance = random.Random(1)
    row = b"".join(b"%d,Add,Add,AI_CORE,%d.001,%d\n" % (one, one, chance.randrange(10**9)) for one in range(20_000))
    return b"Step Id,Name,Type,Accelerator Core,Start Time(us),Duration(us)\n" + row * (_PART_BYTES * 5 // len(row))


def _tar() -> bytes:
    """Return the beginning of a tar: the header of a file of 3 GB."""
    info = tarfile.TarInfo("run/zeros.csv")
    info.size = _UNPACKED_BYTES
    return info.tobuf()


def _zip(path: Path) -> None:
    packed = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1)
    with packed as archive, archive.open("zeros.csv", "w", force_zip64=True) as out:
        for _ in range(_UNPACKED_BYTES // _PART_BYTES):
            out.write(bytes(_PART_BYTES))


def _zip_of_gz(path: Path) -> None:
    inner = path.with_suffix(".inner")
    _later(_rows)(inner)
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(inner, "kernel_details.csv.gz")
    inner.unlink()


def _plain_tar(path: Path) -> None:
    with path.open("wb") as file:
        file.write(_tar())
        file.truncate(_UNPACKED_BYTES + 10240)


_SPARSE: Mapping[str, tuple[str, str]] = {
    "a sparse hash_dic": ("raw", "*hash_dic*"),
    "a sparse slice of tasks": ("raw", "stars_soc.data.0.slice_0"),
    "a sparse slice of calls": ("raw", "aging.api_event.data.slice_0"),
    "a sparse info.json": ("raw", "info.json.0"),
    "a sparse CSV": ("text", "kernel_details.csv"),
    "a sparse timeline": ("text", "trace_view.json"),
    "a sparse Kineto trace": ("kineto", ""),
    "a sparse communication.json": ("text", "communication.json"),
    "a sparse database": ("database", ""),
    "a sparse file of a framework": ("framework", "torch.op_range"),
    "a sparse recording.json": ("recording", "recording.json"),
    "a sparse profile.json": ("saved", "profile.json"),
    "a sparse Parquet file": ("saved", "kernels.parquet"),
}
_PACKED: Mapping[str, Callable[[Path], None]] = {
    "zeros.csv.gz": _zeros(),
    "kernel_details.csv.gz": _later(_rows),
    "trace_view.json.gz": _zeros(b"[" + b'{"ph": "X", "name": "a", "ts": 1, "dur": 2, "pid": 1, "tid": 1},\n' * 100),
    "bomb.tgz": _zeros(_tar()),
    "bomb.tar": _plain_tar,
    "bomb.zip": _zip,
    "packed_table.zip": _zip_of_gz,
}
