"""A ``PROF_*`` directory on disk: its folders, control files and streams. Source: raw/FORMAT.md section 2."""

from __future__ import annotations

import hashlib
import os
from datetime import datetime, timezone
from pathlib import Path

from npuprof.simulator import control, layouts
from npuprof.simulator.chips import Chip
from npuprof.simulator.collection import Collection
from npuprof.simulator.slices import SliceFile, append_file, mark_done, write_file

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
    """One recording being written.

    Parameters
    ----------
    parent
        Where to make the directory; made itself when it is missing.
    chip, collection
        What is simulated, and what was asked for.
    realtime_ns, monotonic_ns
        The moment of the start on both clocks.
    rank_id
        The process's number among those that work together, -1 when it is alone.

    Raises
    ------
    OSError
        If it cannot be made.
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
        """Add a device; its counter showed `counter` when the host's clock showed `monotonic_ns`."""
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
        """Append records to a stream of a device; `name` is without the device's number."""
        key = f"{name}.{device_id}"
        stream = self._streams.get(key)
        if stream is None:
            folder = self.path / f"device_{device_id}" / "data"
            stream = self._streams[key] = SliceFile(folder, key, _DEVICE_RECORD_SIZES[name], straddling=True)
        stream.append(data)

    def dictionaries(self, hash_lines: bytes, type_lines: bytes) -> None:
        """Append lines to the two dictionaries, which are kept whole: they are not cut into slices."""
        for name, lines in ((_HASH_DIC, hash_lines), (_TYPE_DIC, type_lines)):
            if lines:
                append_file(self._host / "data" / f"{name}.slice_0", lines)

    def flush(self) -> None:
        """Write to disk what is pending."""
        for stream in self._streams.values():
            stream.flush()

    def close(self, realtime_ns: int, monotonic_ns: int) -> None:
        """Complete the recording: the rest of the data, the end's files and the marks."""
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
        """Close the files without writing anything more.

        Raises
        ------
        OSError
            If one of them cannot even be cut at its last whole record; all are closed first.
        """
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
    """Make ``PROF_000001_<time><pid and letters>`` with a name that is not taken."""
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
