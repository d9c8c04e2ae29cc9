"""A ``PROF_*`` directory on disk: folders, control files and sliced streams. Source: raw/FORMAT.md section 2."""

from __future__ import annotations

import hashlib
import os
from datetime import datetime, timezone
from pathlib import Path

from npuprof.simulator import control, layouts
from npuprof.simulator.collection import Collection
from npuprof.simulator.cost_model import Chip

SLICE_BYTES = 2 << 20
_PENDING_BYTES = 1 << 20


def mark_done(path: Path) -> None:
    """Write the mark of a complete file. Source: raw/FORMAT.md section 2."""
    write_file(path.with_name(path.name + ".done"), f"filesize:{path.stat().st_size}\n".encode())


def write_file(path: Path, data: bytes) -> None:
    """Write a small file, readable by its owner only."""
    _write(path, data, os.O_TRUNC)


def append_file(path: Path, data: bytes) -> None:
    """Append to a small file, readable by its owner only."""
    _write(path, data, os.O_APPEND)


def _write(path: Path, data: bytes, how: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | how, 0o600)
    try:
        write_all(descriptor, data)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write all bytes, in as many calls as the system needs."""
    view = memoryview(data)
    while len(view):
        view = view[os.write(descriptor, view) :]


class SliceFile:
    """One logical stream: ``<name>.slice_0``, ``<name>.slice_1`` ... of at most 2 MiB.

    With `straddling`, a record may span two slices, as in the device's streams; the host's slices hold whole records.
    Source: raw/FORMAT.md section 2.1.
    """

    def __init__(self, folder: Path, name: str, record_size: int, *, straddling: bool = False) -> None:
        self._folder = folder
        self._name = name
        self._record_size = record_size
        self._limit = SLICE_BYTES if straddling else SLICE_BYTES // record_size * record_size
        self._number = -1
        self._room = 0
        self._descriptor: int | None = None
        self._buffer = bytearray()

    def append(self, data: bytes) -> None:
        """Buffer records until :meth:`flush`, or until the buffer is full."""
        self._buffer += data
        if len(self._buffer) >= _PENDING_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the buffer; on an OSError it is dropped, and earlier writes remain."""
        pending, self._buffer = bytes(self._buffer), bytearray()
        view = memoryview(pending)
        while len(view):
            if not self._room:
                self._next_slice()
            part, view = view[: self._room], view[self._room :]
            if self._descriptor is None:
                raise OSError(f"{self._name} is closed")
            write_all(self._descriptor, part)
            self._room -= len(part)

    def close(self) -> None:
        """Write the buffer and mark the last slice complete."""
        self.flush()
        self._close_slice()

    def abandon(self) -> None:
        """Stop writing; whole records on disk remain, without a mark."""
        self._buffer.clear()
        if self._descriptor is None:
            return
        try:
            # A partial record at the end would shift all records for a reader that aligns them to the end.
            size = os.fstat(self._descriptor).st_size
            cut = (self._number * self._limit + size) % self._record_size
            os.ftruncate(self._descriptor, max(0, size - cut))
        finally:
            os.close(self._descriptor)
            self._descriptor = None
            self._room = 0

    def _next_slice(self) -> None:
        self._close_slice()
        self._number += 1
        self._descriptor = os.open(self._path(), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._room = self._limit

    def _close_slice(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            mark_done(self._path())

    def _path(self) -> Path:
        return self._folder / f"{self._name}.slice_{self._number}"


_HOST_RECORD_SIZES = {
    "aging.api_event.data": layouts.API.size,
    "aging.compact.node_basic_info": layouts.NODE_BASIC_INFO.size,
    "aging.compact.task_track": layouts.TASK_TRACK.size,
    "aging.compact.memcpy_info": layouts.MEMCPY_INFO.size,
    "aging.additional.tensor_info": layouts.TENSOR_INFO.size,
    "aging.additional.context_id_info": layouts.CONTEXT_ID_INFO.size,
    "aging.additional.msproftx": layouts.MARK.size,
    "aging.additional.task_memory_info": layouts.TASK_MEMORY_INFO.size,
    "aging.additional.hccl_info": layouts.HCCL_INFO.size,
    "aging.compact.hccl_op_info": layouts.HCCL_OP_INFO.size,
}
_DEVICE_RECORD_SIZES = {
    "stars_soc.data": layouts.STARS_SOC.size,
    "ffts_profile.data": layouts.FFTS_PROFILE.size,
    "lpmFreqConv.data": layouts.FREQUENCY.size,
    "ts_track.data": layouts.TS_TRACK_STEP.size,
    "l2_cache.data": layouts.L2_CACHE.size,
    "hbm.data": layouts.HBM.size,
    "npu_mem.data": layouts.NPU_MEM.size,
    "npu_mem.app": layouts.NPU_MEM.size,
}
_ATTEMPTS = 1000
_HASH_DIC = "unaging.additional.hash_dic"
_TYPE_DIC = "unaging.additional.type_info_dic"


class ProfDirectory:
    """A recording in progress; raises an OSError if the directory cannot be created.

    `realtime_ns` and `monotonic_ns` are the start on both clocks; `rank_id` is -1 for a single process.
    """

    def __init__(
        self,
        parent: Path,
        chip: Chip,
        collection: Collection,
        realtime_ns: int,
        monotonic_ns: int,
        rank_id: int = -1,
    ) -> None:
        self._chip = chip
        self._collection = collection
        self._rank_id = rank_id
        self._started = control.moment("Begin", realtime_ns, monotonic_ns)
        self._monotonic_ns = monotonic_ns
        self._devices: list[int] = []
        self._streams: dict[str, SliceFile] = {}
        self.path = _make_directory(parent, realtime_ns)
        self._make_data_folder(self._host)
        self._write(self._host / "info.json", control.to_json(control.info(chip, None, monotonic_ns, rank_id)))
        self._write(self._host / "sample.json", control.to_json(control.sample(collection, None, str(self._host))))
        self._write(self._host / "start_info", control.to_json(self._started))
        self._write(self._host / "host_start.log", control.anchor(monotonic_ns, monotonic_ns, "Host"))

    @property
    def _host(self) -> Path:
        return self.path / "host"

    def open_device(self, device_id: int, monotonic_ns: int, counter: int) -> None:
        """Add a device, with its counter at a time of the host's clock."""
        folder = self.path / f"device_{device_id}"
        self._make_data_folder(folder)
        self._devices.append(device_id)
        info = control.info(self._chip, device_id, self._monotonic_ns, self._rank_id)
        for name, content in (
            ("info.json.{}", control.to_json(info)),
            ("sample.json", control.to_json(control.sample(self._collection, device_id, str(folder)))),
            ("start_info.{}", control.to_json(self._started)),
            ("host_start.log.{}", control.anchor(monotonic_ns, monotonic_ns, f"Device{device_id}")),
            ("dev_start.log.{}", control.anchor(monotonic_ns, counter)),
        ):
            self._write(folder / name.format(device_id), content)

    def host(self, name: str, data: bytes) -> None:
        """Append records to a stream of the host."""
        stream = self._streams.get(name)
        if stream is None:
            stream = self._streams[name] = SliceFile(self._host / "data", name, _HOST_RECORD_SIZES[name])
        stream.append(data)

    def device(self, device_id: int, name: str, data: bytes) -> None:
        """Append records to a stream of a device; `name` is without the device id."""
        key = f"{name}.{device_id}"
        stream = self._streams.get(key)
        if stream is None:
            folder = self.path / f"device_{device_id}" / "data"
            stream = self._streams[key] = SliceFile(folder, key, _DEVICE_RECORD_SIZES[name], straddling=True)
        stream.append(data)

    def dictionaries(self, hash_lines: bytes, type_lines: bytes) -> None:
        """Append lines to the two dictionaries, which are not sliced."""
        for name, lines in ((_HASH_DIC, hash_lines), (_TYPE_DIC, type_lines)):
            if lines:
                append_file(self._host / "data" / f"{name}.slice_0", lines)

    def flush(self) -> None:
        """Write all buffers to disk."""
        for stream in self._streams.values():
            stream.flush()

    def close(self, realtime_ns: int, monotonic_ns: int) -> None:
        """Complete the recording: remaining data, end files and marks."""
        for stream in self._streams.values():
            stream.close()
        for name in (_HASH_DIC, _TYPE_DIC):
            path = self._host / "data" / f"{name}.slice_0"
            if path.exists():
                mark_done(path)
        ended = control.to_json(control.moment("End", realtime_ns, monotonic_ns))
        self._write(self._host / "end_info", ended)
        for device_id in self._devices:
            self._write(self.path / f"device_{device_id}" / f"end_info.{device_id}", ended)

    def abandon(self) -> None:
        """Close the files without further writes."""
        errors = []
        for stream in self._streams.values():
            try:
                stream.abandon()
            except OSError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    @staticmethod
    def _make_data_folder(folder: Path) -> None:
        folder.mkdir(mode=0o700)
        (folder / "data").mkdir(mode=0o700)

    @staticmethod
    def _write(path: Path, content: bytes) -> None:
        write_file(path, content)
        mark_done(path)


def _make_directory(parent: Path, realtime_ns: int) -> Path:
    """Create ``PROF_000001_<time><pid and letters>`` with an unused name."""
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    date = datetime.fromtimestamp(realtime_ns // 10**9, timezone.utc)
    stamp = f"{date:%Y%m%d%H%M%S}{realtime_ns // 10**6 % 1000:03d}"
    for attempt in range(_ATTEMPTS):
        digest = hashlib.sha256(f"{stamp} {os.getpid()} {attempt}".encode()).digest()
        letters = "".join(chr(ord("A") + byte % 26) for byte in digest[:8])
        path = parent / f"PROF_000001_{stamp}_{os.getpid() % 10**8:08d}{letters}"
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            continue
        return path
    raise FileExistsError(f"{parent} holds {_ATTEMPTS} recordings of the same millisecond")
