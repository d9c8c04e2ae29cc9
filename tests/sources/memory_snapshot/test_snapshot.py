"""Memory snapshots of torch: what they tell, and pickles that are no snapshots."""

from __future__ import annotations

import os
import pickle
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import npuprof
from npuprof.errors import SourceError
from npuprof.sources.memory_snapshot.plain_pickle import load_plain

_FRAMES = [
    {"filename": "??", "line": 0, "name": "torch::empty"},
    {"filename": "/x/site-packages/torch/nn/linear.py", "line": 5, "name": "forward"},
    {"filename": "/home/me/main.py", "line": 7, "name": "train"},
]


def entry(action: str, addr: int, size: int, time_us: int, frames: Any = _FRAMES) -> dict[str, Any]:
    return {"action": action, "addr": addr, "size": size, "stream": 0, "time_us": time_us, "frames": frames}


def snapshot() -> dict[str, Any]:
    """Return a snapshot: one block from before, one that was given back, one that stays, and a new segment."""
    blocks = [
        {"address": 1000, "size": 512, "requested_size": 500, "state": "active_allocated", "frames": []},
        {"address": 1512, "size": 1024, "requested_size": 1024, "state": "active_allocated", "frames": _FRAMES},
        {"address": 2536, "size": 2048, "requested_size": 0, "state": "inactive", "frames": []},
    ]
    segment = {"device": 0, "address": 1000, "total_size": 4096, "stream": 0, "segment_type": "small"}
    segment |= {"allocated_size": 1536, "active_size": 1536, "segment_pool_id": (0, 0), "blocks": blocks}
    trace = [
        entry("segment_alloc", 1000, 4096, 10),
        entry("alloc", 2536, 2048, 20),
        entry("alloc", 1512, 1024, 30),
        entry("free_requested", 2536, 2048, 40),
        entry("free_completed", 2536, 2048, 50),
        entry("snapshot", 0, 0, 60),
    ]
    return {"segments": [segment], "device_traces": [trace, []], "allocator_settings": {"max_split_size": -1}}


def saved(folder: Path, value: object, protocol: int = 4) -> Path:
    path = folder / "snapshot.pickle"
    path.write_bytes(value if isinstance(value, bytes) else pickle.dumps(value, protocol))
    return path


@pytest.mark.parametrize("timed", [(), (0,), (2, 3), range(6)])
def test_a_history_without_times_keeps_its_order_and_its_peak(tmp_path: Path, timed: Sequence[int]) -> None:
    """Older torch writes no times: what is known then is the order, whatever times some of the entries have."""
    untimed = snapshot()
    for number, one in enumerate(untimed["device_traces"][0]):
        if number not in timed:
            del one["time_us"]
    run = npuprof.load(saved(tmp_path, untimed))
    memory, blocks = run.memory, run.allocations
    known = [number in timed for number in range(5)]
    assert memory["time_ns"].notna().tolist() == known
    assert memory["time_ns"].dropna().tolist() == [10_000 * (1 + number) for number in range(5) if number in timed]
    assert memory["sequence"].tolist() == [0, 1, 2, 3, 4]
    assert memory["allocated_bytes"].tolist() == [512, 2560, 3584, 1536, 1536]
    assert memory["reserved_bytes"].tolist() == [4096] * 5
    assert blocks["size_bytes"].tolist() == [2048, 1024, 512]
    assert blocks["allocated_sequence"].fillna(-1).tolist() == [1, 2, -1]
    assert blocks["released_sequence"].fillna(-1).tolist() == [3, -1, -1]
    peak = run.memory_peak()  # the block that was given back, the one that stays, the one from before
    assert peak["size_bytes"].tolist() == [3072, 512]
    assert peak["time_ns"].isna().tolist() == [not known[2]] * 2
    warnings = run.notes.query("severity == 'warning'")
    assert warnings["count"].tolist() == [5 - sum(known)] * (not all(known))
    assert all("the column sequence" in message for message in warnings["message"])
    assert run.ledger["left_out"].sum() == 0
    figure = run.plot_memory()
    line = next(trace for trace in figure.data if "allocated" in trace.name)
    assert list(line.y) == [size / 2**20 for size in (512, 2560, 3584, 1536, 1536)]
    assert all(known) or list(line.x) == [0, 1, 2, 3, 4]
    star = next(trace for trace in figure.data if "peak" in trace.name)
    assert "blocks of this run in use then: 3.50 KiB" in star.hovertext[0]
    again = npuprof.load(run.save(tmp_path / "kept"))
    assert again.memory.to_csv() == memory.to_csv()
    shown = [str(run), run._repr_html_(), run.to_chrome_trace(tmp_path / "t.json").read_text(), str(run.timeline())]
    shown += [memory.to_string(), blocks.to_string(), run.to_memory_timeline(tmp_path / "m.json").read_text()]
    assert not any("9223372036854775" in text for text in shown)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_blocks_have_their_life_and_their_line(protocol: int, tmp_path: Path) -> None:
    run = npuprof.load(saved(tmp_path, snapshot(), protocol))
    blocks = run.allocations
    assert blocks["size_bytes"].tolist() == [2048, 1024, 512]
    assert blocks["allocated_ns"].tolist() == [20_000, 30_000, None] or blocks["allocated_ns"].isna().tolist()[2]
    assert blocks["released_ns"].isna().tolist() == [False, True, True]
    assert blocks["released_ns"][0] == 40_000
    assert blocks["name"].tolist()[:2] == ["train"] * 2
    memory = run.memory
    assert memory["time_ns"].tolist() == [10_000, 20_000, 30_000, 40_000, 50_000]
    assert memory["allocated_bytes"].tolist() == [512, 2560, 3584, 1536, 1536]
    assert memory["active_bytes"].tolist() == [512, 2560, 3584, 3584, 1536]
    assert memory["reserved_bytes"].tolist() == [4096] * 5
    assert not (run.notes["severity"] == "warning").any()
    ledger = run.ledger
    assert ledger["rows"].sum() == ledger[["in_tables", "used", "left_out"]].sum().sum() == 9


def test_the_owners_at_the_peak_are_lines(tmp_path: Path) -> None:
    owners = npuprof.load(saved(tmp_path, snapshot())).memory_peak().set_index("line")
    assert int(owners["size_bytes"].sum()) == 3584
    assert int(owners.loc["main.py:7", "size_bytes"]) == 3072
    assert owners.loc[owners.index.isna(), "category"].tolist() == ["allocated before this run"]


def test_missing_history_still_gives_blocks(tmp_path: Path) -> None:
    run = npuprof.load(saved(tmp_path, snapshot() | {"device_traces": []}))
    assert run.allocations["size_bytes"].tolist() == [512, 1024]
    assert run.notes["message"].str.contains("no history").any()


def test_unreadable_entries_are_counted(tmp_path: Path) -> None:
    told = snapshot()
    told["device_traces"][0] += [7, entry("alloc", 1, -5, 70), entry("shuffle", 1, 5, 70), {"action": "alloc"}]
    run = npuprof.load(saved(tmp_path, told))
    assert int(run.ledger["left_out"].sum()) == 4
    assert run.notes["message"].str.contains("'shuffle'").any()


class _Runs:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def nested_key(depth: int) -> bytes:
    return b"\x80\x04}" + b")" + b"\x85" * depth + b"K\x01s."


def keys_of_one_hash(numbers: range) -> bytes:
    """Return a dictionary whose keys Python stores with one hash, so that each is compared with all before it."""
    wide = (number * sys.hash_info.modulus << 12 for number in numbers)
    assert len({hash(number * sys.hash_info.modulus) for number in numbers}) == 1
    return pickle.dumps(dict.fromkeys(wide, 1), protocol=4)


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x04cos\nsystem\n(X\x02\x00\x00\x00idtR.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02id\x85R.",
        b"\x80\x02(cos\nsystem\nX\x02\x00\x00\x00ido.",
        b"\x80\x02\x82\x01.",
        b"\x80\x02X\x01\x00\x00\x00aQ.",
        b"\x80\x05\x97.",
        b"\x80\x04\x8f(K\x01\x90.",
        nested_key(500_000),
        b"\x80\x04K\x01r\xff\xff\xff\xff.",
        b"\x80\x04\x8b\xff\xff\xff\x7f.",
        b"\x80\x04\x8d" + struct.pack("<Q", 1 << 62) + b"a.",
        b"\x80\x04}",
        b"\x80\x04].",
        b"\x80\x04a.",
        b"\x80\x04(((((.",
        pickle.dumps({"segments": 1, "device_traces": []}),
    ],
)
def test_other_pickles_are_refused(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(SourceError):
        npuprof.load(saved(tmp_path, content))


@pytest.mark.parametrize(
    "content",
    [
        keys_of_one_hash(range(1, 5)),
        b"\x80\x04}" + pickle.dumps(tuple(range(4)))[2:-1] + b"K\x01s.",
        b"\x80\x04}(K\x01\x8a\x05\x00\x00\x00\x00\x01\x86K\x01u.",
    ],
)
def test_keys_that_can_be_made_to_have_one_hash_are_refused(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="is a pickle that npuprof does not open"):
        npuprof.load(saved(tmp_path, content))


def test_nothing_of_a_pickle_is_run(tmp_path: Path) -> None:
    target = tmp_path / "made"
    for value in (_Runs(target), snapshot() | {"allocator_settings": _Runs(target)}):
        with pytest.raises(SourceError, match="can run any program"):
            npuprof.load(saved(tmp_path, value))
    assert not target.exists()


def test_shared_lists_do_not_multiply_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("npuprof.sources.memory_snapshot.history._MAX_ROWS", 1_000)
    segment = {"device": 0, "address": 0, "blocks": [{"size": 1, "state": "active_allocated"}] * 900}
    run = npuprof.load(
        saved(tmp_path, {"segments": [segment] * 900, "device_traces": [[entry("oom", 0, 0, 1)] * 90] * 9})
    )
    assert len(run.allocations) <= 1_000
    assert run.notes["message"].str.contains("beyond").any()


@given(st.binary(max_size=200))
def test_damage_never_ends_badly(noise: bytes) -> None:
    whole = pickle.dumps(snapshot(), 4)
    for content in (b"\x80\x04" + noise, whole[: len(noise) * 3] + noise + whole[len(noise) * 3 + 2 :]):
        try:
            load_plain(content, "snapshot")
        except SourceError:
            continue
