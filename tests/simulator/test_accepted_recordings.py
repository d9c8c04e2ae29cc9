"""Recordings of the simulator have the form of recordings that the vendor's parser has accepted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from npuprof.simulator import Event, Simulator
from npuprof.simulator.device_view import TASK_IDS
from tests.simulator.conftest import Record
from tests.simulator.recording_form import DICTIONARIES, KINDS, Form
from tests.simulator.test_vendor_rules import ALL, marks, several_devices
from tests.simulator.work import everything

# Keys that the accepted recordings do not have: what says that a recording is simulated, and settings that none asked.
OWN_KEYS = {
    "info.json": {"simulated"},
    "sample.json": {"taskMemory", "memProfiling", "memInterval"},
    "DeviceInfo": {"soc_name"},
}
FLIP = (0, 0x0E)  # no accepted recording holds one in ts_track


@pytest.fixture(scope="module")
def accepted(samples: Path) -> list[Form]:
    """The recordings with the parser's results beside them."""
    forms = [Form(path) for path in sorted(samples.glob("raw/*/PROF_*")) if (path.parent / "expected").is_dir()]
    if not forms:
        pytest.skip(f"no accepted recordings in {samples}")
    return forms


def all_kinds(machine: Simulator) -> None:
    everything(machine)
    marks(machine)
    machine.device(0).default_stream.next_task_id = TASK_IDS - 1
    for _ in range(3):
        machine.device(0).record_event(Event())


@pytest.fixture
def simulated(record: Record) -> Path:
    return record(all_kinds, ALL, settings={3: "50"})


def key_types(forms: list[Form], name: str, key: str = "") -> tuple[dict[str, str], set[str]]:
    """Return the types of the keys of a control file, or of objects in a list of it, and the keys that all have."""
    kinds: dict[str, str] = {}
    common: set[str] | None = None
    for form in forms:
        for content in form.content(name):
            for each in content[key] if key else (content,):
                kinds |= {inner: type(value).__name__ for inner, value in each.items()}
                common = set(each) if common is None else common & set(each)
    return kinds, common or set()


def control_files_agree(form: Form, accepted: list[Form]) -> None:
    known = {side: names for each in accepted for side, names in each.controls.items()}
    assert form.controls == {side: known[side] for side in form.controls}
    assert form.logs() <= {log for each in accepted for log in each.logs()}
    for name in ("info.json", "sample.json", "start_info", "end_info"):
        keys_agree(form, accepted, name)
    for key in ("CPU", "netCard", "DeviceInfo"):
        keys_agree(form, accepted, "info.json", key)


def keys_agree(form: Form, accepted: list[Form], name: str, key: str = "") -> None:
    known, common = key_types(accepted, name, key)
    mine, _ = key_types([form], name, key)
    assert common <= mine.keys()
    own = OWN_KEYS.get(key or name, set())
    assert mine.keys() - known.keys() <= own
    assert all(known.get(each, kind) == kind for each, kind in mine.items())


def files_agree(form: Form, accepted: list[Form]) -> None:
    assert form.slices.keys() <= {stream for each in accepted for stream in each.slices}
    assert form.done() <= {mark for each in accepted for mark in each.done()}


def records_agree(form: Form, accepted: list[Form]) -> None:
    for stream in form.slices.keys() - DICTIONARIES.keys():
        # The two of npu_mem are one kind: the parser goes by the event, not by the file.
        same = [each for each, kind in KINDS.items() if kind is KINDS[stream]]
        known = {mark for each in accepted for name in same for mark in each.marks(name)}
        assert known, stream
        assert form.marks(stream) - {FLIP} <= known, stream


def dictionaries_agree(form: Form, accepted: list[Form]) -> None:
    for each in (form, *accepted):
        for name, line in DICTIONARIES.items():
            assert all(line.fullmatch(text) for text in each.lines(name))
    fixed = {key: name for each in accepted for key, name in each.names.items() if has_fixed_number(key, name)}
    assert fixed.keys() & form.names.keys()
    assert all(fixed.get(key, name) == name for key, name in form.names.items())


def has_fixed_number(key: str, name: str) -> bool:
    """Return whether a type has one number everywhere; those of acl and most of the runtime are given at first use."""
    level = key.partition("_")[0]
    return level not in ("20000", "5000") or name.startswith("KERNEL_")


RULES = (control_files_agree, files_agree, records_agree, dictionaries_agree)


def agree(form: Form, accepted: list[Form]) -> None:
    for rule in RULES:
        rule(form, accepted)


@pytest.mark.parametrize("rule", RULES)
def test_recorded_formats_are_accepted(
    rule: Callable[[Form, list[Form]], None], simulated: Path, accepted: list[Form]
) -> None:
    form = Form(simulated)
    assert form.slices.keys() == KINDS.keys() | DICTIONARIES.keys()
    rule(form, accepted)


@pytest.mark.slow
@pytest.mark.parametrize("mask", [0x80, 0x801, 0x27, 0x12F], ids=hex)
def test_a_recording_of_every_level_has_the_accepted_form(mask: int, record: Record, accepted: list[Form]) -> None:
    agree(Form(record(everything, mask)), accepted)


def test_a_recording_of_two_devices_has_the_accepted_form(record: Record, accepted: list[Form]) -> None:
    form = Form(record(several_devices, ALL, devices=(0, 1), settings={3: "100"}))
    assert len(form.sides) == 3
    agree(form, accepted)


# Bytes of a record that are marks or reserved.
FIXED = [0, 2, 4, 12, 13]
MARKED = {
    "aging.api_event.data": [0, 2],
    "aging.compact.task_track": [*FIXED, 53, 63],
    "aging.compact.node_basic_info": [*FIXED, 52, 63],
    "aging.compact.memcpy_info": [*FIXED, 42, 63],
    "aging.additional.tensor_info": FIXED,
    "aging.additional.context_id_info": [*FIXED, 40, 255],
    "aging.additional.task_memory_info": [*FIXED, 68, 72, 255],
    "aging.additional.msproftx": [*FIXED, 25, 28, 32, 34],
    "stars_soc.data": [0, 2, 21, 24, 63],
    "ffts_profile.data": [0, 2, 8, 15, 21, 22, 40],
    "lpmFreqConv.data": [4, 20, 884],
    "ts_track.data": [0, 1, 4, 38],
    "l2_cache.data": [0, 6],
    "hbm.data": [16],
    "npu_mem.data": [4, 8],
    "npu_mem.app": [4, 8],
}


@pytest.mark.slow
@pytest.mark.parametrize("stream", MARKED)
def test_another_byte_in_a_record_is_noticed(stream: str, simulated: Path, accepted: list[Form]) -> None:
    (path,) = Form(simulated).slices[stream]
    data = path.read_bytes()
    for at in MARKED[stream]:
        path.write_bytes(data[:at] + bytes((data[at] ^ 0xA5,)) + data[at + 1 :])
        with pytest.raises(AssertionError, match=stream):
            records_agree(Form(simulated), accepted)


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def rename(path: Path, name: str) -> None:
    path.rename(path.with_name(name))
    path.with_name(f"{path.name}.done").rename(path.with_name(f"{name}.done"))


HOST_DATA, DEVICE = "host/data", "device_0"
BREAKS: dict[str, Callable[[Path], object]] = {
    "a key is missing": lambda path: edit(path / "host/info.json", lambda info: info.pop("drvVersion")),
    "a key is new": lambda path: edit(path / "host/info.json", lambda info: info.update(colour="red")),
    "a number became text": lambda path: edit(path / "host/sample.json", lambda one: one.update(msprofBinPid="-1")),
    "text became a number": lambda path: edit(path / "host/start_info", lambda one: one.update(clockMonotonicRaw=1)),
    "a device's number is text": lambda path: edit(
        path / DEVICE / "info.json.0", lambda info: info["DeviceInfo"][0].update(ai_core_num="24")
    ),
    "a control file is missing": lambda path: (path / DEVICE / "end_info.0").unlink(),
    "a control file has another name": lambda path: rename(path / DEVICE / "dev_start.log.0", "device_start.log.0"),
    "a log without its section": lambda path: (path / "host/host_start.log").write_text("cntvct: 1\n"),
    "a log with a fraction": lambda path: (path / "host/host_start.log").write_text("[Host]\ncntvct: 1.5\n"),
    "a stream has another name": lambda path: rename(
        path / HOST_DATA / "aging.compact.task_track.slice_0", "aging.compact.tracks.slice_0"
    ),
    "a slice without its number": lambda path: rename(path / DEVICE / "data/hbm.data.0.slice_0", "hbm.data.0.slice_"),
    "a mark with another size": lambda path: (path / DEVICE / "data/hbm.data.0.slice_0.done").write_text(
        "filesize:1\n"
    ),
    "part of a record": lambda path: (path / DEVICE / "data/hbm.data.0.slice_0").write_bytes(bytes(25)),
    "a dictionary's line without a name": lambda path: (
        path / HOST_DATA / "unaging.additional.type_info_dic.slice_0"
    ).write_text("5000_0:\n"),
    "a dictionary without its last line's end": lambda path: (
        path / HOST_DATA / "unaging.additional.hash_dic.slice_0"
    ).write_text("1:a"),
    "a type with another name": lambda path: (path / HOST_DATA / "unaging.additional.type_info_dic.slice_0").write_text(
        "5000_0:KERNEL_AIVEC\n"
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("broken", BREAKS.values(), ids=BREAKS)
def test_another_form_is_noticed(broken: Callable[[Path], object], simulated: Path, accepted: list[Form]) -> None:
    broken(simulated)
    with pytest.raises((AssertionError, FileNotFoundError, ValueError)):
        agree(Form(simulated), accepted)


def test_accepted_records_hold_nothing_in_reserved_bytes(accepted: list[Form]) -> None:
    for stream in KINDS:
        assert any(form.marks(stream) for form in accepted), stream
