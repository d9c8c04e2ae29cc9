"""Records that are gone from a raw directory are told by those that depend on them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from npuprof.simulator import synthesise
from npuprof.sources import raw
from npuprof.sources.base import Decoded
from tests.sources.raw.conftest import raw_sample, writable_copy

_SIZES = {"task_track": 64, "node_basic_info": 64, "tensor_info": 256, "stars_soc.": 64}
_ROWS = 200


def _told(decoded: Decoded) -> dict[str, tuple[str, int]]:
    notes = decoded.notes.to_frame()
    told = notes[notes["severity"] != "info"]
    return {source: (message, count) for _, source, message, count, *_ in told.itertuples(index=False)}


def _gone(path: Path, stream: str) -> None:
    for file in path.rglob(f"*{stream}*"):
        file.unlink()


def _halved(path: Path, stream: str) -> None:
    """Leave out every second record, as if it had never been written."""
    for file in path.rglob(f"*{stream}*.slice_0"):
        content, size = file.read_bytes(), _SIZES[stream]
        file.write_bytes(b"".join(content[at : at + size] for at in range(0, len(content), 2 * size)))
        mark = file.with_name(f"{file.name}.done")
        if mark.exists():
            mark.write_text(f"filesize:{file.stat().st_size}\n")


@pytest.mark.parametrize("damage", [_gone, _halved])
@pytest.mark.parametrize("stream", ["task_track", "node_basic_info", "tensor_info"])
def test_lost_launches_have_their_share_of_time(
    tmp_path: Path, stream: str, damage: Callable[[Path, str], None]
) -> None:
    path = synthesise(tmp_path, launches=_ROWS, threads=1)
    whole = raw.read(path)
    assert not len(whole.notes)
    damage(path, stream)
    decoded = raw.read(path)
    message, count = _told(decoded)[stream]
    durations = whole.tables["kernels"].sort_values("connection_id")["duration_ns"]  # in the order of the launches
    lost = durations if damage is _gone else durations[1::2]
    assert count == len(lost)
    assert f"({100 * lost.sum() / durations.sum():.1f} % of kernel time)" in message


@pytest.mark.parametrize(
    ("stream", "source"),
    [
        ("ffts_profile", "device 0"),
        ("stars_soc.data", "device 0"),
        ("hbm.data", "device 0"),
        ("hccs.data", "device 0"),
        ("l2_cache", "device 0"),
        ("llc.data", "device 0"),
        ("socpmu", "device 0"),
        ("hccl_info", "hccl_info"),
        ("msproftx", "msproftx"),
        ("task_track", "task_track"),
        ("node_basic_info", "node_basic_info"),
        ("tensor_info", "tensor_info"),
        ("api_event", "api_event"),
    ],
)
def test_a_stream_that_is_gone_is_named(samples: Path, tmp_path: Path, stream: str, source: str) -> None:
    path = writable_copy(raw_sample(samples, "everything"), tmp_path / "PROF_everything")
    whole = _told(raw.read(path))
    _gone(path, stream)
    told = _told(raw.read(path))
    assert source not in whole
    if source == stream == "api_event":
        assert len(told) > len(whole)
    else:
        assert source in told


def test_streams_that_no_switch_calls_for_are_not_due(tmp_path: Path) -> None:
    path = synthesise(tmp_path, launches=20)
    for file in path.rglob("sample.json"):
        options = json.loads(file.read_text())
        file.write_text(json.dumps({**options, "ai_core_metrics": "", "hbmProfiling": "off"}))
    _gone(path, "ffts_profile")
    assert not any("ffts_profile is missing" in message for message, _ in _told(raw.read(path)).values())


def test_a_switch_calls_for_its_stream(tmp_path: Path) -> None:
    path = synthesise(tmp_path, launches=20)
    file = path / "device_0" / "sample.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "hbmProfiling": "on"}))
    assert "hbm.data.0 is missing, though sample.json has hbmProfiling=on" in _told(raw.read(path))["device 0"][0]
