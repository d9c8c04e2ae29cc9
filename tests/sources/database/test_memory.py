"""Memory and sampled values, as each front end's database holds them."""

from __future__ import annotations

from pathlib import Path

from npuprof.sources import database
from tests.sources.database.maker import ENUMS, Maker, at

_OPERATOR = "operatorName addr type size timestampNs globalTid totalAllocate totalReserve component deviceId"


def test_blocks_of_the_graph_engine_pair_allocation_and_release_by_address(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "msprof_1.db")
    take, give, engine = maker.text("allocate"), maker.text("release"), maker.text("GE")
    names = {name: maker.text(name) for name in ("kept", "given back", "from before")}
    rows = [
        (names["from before"], 16, give, 100, at(1), 0, 0, 900, engine, 0),
        (names["given back"], 16, take, 300, at(2), 0, 300, 900, engine, 0),
        (names["kept"], 32, take, 500, at(3), 0, 800, 900, engine, 0),
        (names["given back"], 16, give, 300, at(4), 0, 500, 900, engine, 0),
    ]
    decoded = database.read(maker.table("NPU_OP_MEM", _OPERATOR, rows).close())
    blocks = decoded.tables["allocations"].set_index("name")
    assert blocks["size_bytes"].to_dict() == {"from before": -100, "given back": 300, "kept": 500}
    assert blocks["allocated_ns"].fillna(0).to_dict() == {"from before": 0, "given back": at(2), "kept": at(3)}
    assert blocks["released_ns"].fillna(0).to_dict() == {"from before": at(1), "given back": at(4), "kept": 0}
    assert decoded.tables["memory"]["allocated_bytes"].tolist() == [0, 300, 800, 500]


def test_words_of_2024_are_read(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "msprof_1.db")
    for other in ("GE", "first", "second", "third", "fourth", "fifth", "sixth"):
        maker.text(other)  # a text of STRING_IDS has the number of each word too
    words = {0: "app", 1: "device", 3: "read", 4: "write", 5: "allocate", 6: "release"}
    blocks = [(7, address, event, 64, at(time), 0, 64, 128, 1, 0)
              for address, event, time in ((16, 5, 1), (32, 5, 2), (16, 6, 3), (32, 6, 4), (16, 9, 5))]  # fmt: skip
    maker.table("NPU_OP_MEM", _OPERATOR, blocks)
    maker.table(
        "NPU_MEM", "type ddr:NUMERIC hbm:NUMERIC timestampNs deviceId", [(0, 1, 2, at(1), 0), (1, 1, 2, at(1), 0)]
    )
    maker.table("HBM", "deviceId timestampNs bandwidth:NUMERIC hbmId type", [(0, at(2), 3 << 20, 2, 4)])
    decoded = database.read(maker.close({**ENUMS, "ENUM_MEMORY": words}))
    pairs = decoded.tables["allocations"][["allocated_ns", "released_ns"]].to_numpy().tolist()
    assert pairs == [[at(1), at(3)], [at(2), at(4)]]
    assert set(decoded.tables["memory"]["component"]) == {"GE", "APP", "Device"}
    assert "HBM write" in set(decoded.tables["counters"]["counter"])
    told = decoded.notes.to_frame().set_index("message")["count"]
    assert told["NPU_OP_MEM: a row neither allocates nor releases; left out of allocations"] == 1


def test_rows_of_an_allocator_are_not_counted_twice(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "ascend_pytorch_profiler.db")
    engine = maker.text("GE")
    maker.table("NPU_OP_MEM", _OPERATOR, [(engine, 1, maker.text("allocate"), 5, at(1), 0, 5, 9, engine, 0)])
    columns = "component timestamp totalAllocated totalReserved totalActive streamPtr deviceId"
    maker.table("MEMORY_RECORD", columns, [(engine, at(1), 5, 9, None, None, 0)])
    maker.table("NPU_MEM", "type ddr:NUMERIC hbm:NUMERIC timestampNs deviceId", [
        (maker.text("app"), 4, 60, at(2), 0), (maker.text("device"), 8, 90, at(2), 0),
    ])  # fmt: skip
    maker.table(
        "NPU_MODULE_MEM", "moduleId timestampNs totalReserved:NUMERIC deviceId", [(45, at(3), 7, 0), (3, at(3), -1, 0)]
    )
    memory = database.read(maker.close()).tables["memory"]
    assert memory["component"].tolist() == ["GE", "APP", "GE (module)", "HCCL (module)"]
    assert memory["reserved_bytes"].fillna(0).tolist() == [9, 64, 7, 0]
    assert "hbm_bytes" not in memory


def test_events_of_framework_blocks_are_no_loss(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "ascend_pytorch_profiler.db")
    engine, take, give = maker.text("GE"), maker.text("allocate"), maker.text("release")
    events = [(engine, 1, event, 5, at(time), 0, 5, 9, engine, 0) for event, time in ((take, 1), (give, 2), (take, 7))]
    maker.table("NPU_OP_MEM", _OPERATOR, events)
    maker.table("OP_MEMORY", "name size allocationTime releaseTime deviceId", [(engine, 5, at(1), at(2), 0)])
    maker.table("MEMORY_RECORD", "component timestamp totalAllocated deviceId", [(engine, at(1), 5, 0)])
    decoded = database.read(maker.close())
    assert len(decoded.tables["allocations"]) == 1
    accounts = decoded.notes.ledger.to_frame().set_index("input").loc["ascend_pytorch_profiler.db: NPU_OP_MEM"]
    assert accounts.to_dict() == {"rows": 3, "in_tables": 0, "used": 2, "left_out": 1}
    told = decoded.notes.to_frame().set_index("source").loc["ascend_pytorch_profiler.db: NPU_OP_MEM"]
    assert (told["severity"], told["count"]) == ("warning", 1)


def test_counters_have_their_unit_and_instance(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "msprof_1.db")
    maker.table(
        "HBM", "deviceId timestampNs bandwidth:NUMERIC hbmId type", [(1, at(2), 3 << 20, 2, maker.text("write"))]
    )
    maker.table("AICORE_FREQ", "deviceId timestampNs:NUMERIC freq", [(1, at(1), 1800), (1, None, 900)])
    decoded = database.read(maker.close())
    counters = decoded.tables["counters"]
    assert counters["counter"].tolist() == ["AI Core Freq", "HBM write"]
    assert counters["value"].tolist() == [1800.0, 3.0]
    assert counters["unit"].tolist() == ["MHz", "MB/s"]
    assert counters["instance"].tolist()[1] == "2"
    assert counters["device_id"].tolist() == [1, 1]
    assert decoded.notes.to_frame()["count"].tolist() == [1]


def test_a_database_of_mindspore_is_known_by_its_name(tmp_path: Path) -> None:
    output = tmp_path / "run_ascend_ms" / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    columns = "startNs endNs type globalTid connectionId name"
    maker = Maker(output / "ascend_mindspore_profiler.db").table("CANN_API", columns, [(at(1), at(2), 20000, 1, 1, 1)])
    maker.table("NEW_IN_2027", "deviceId", [(1,)]).close()
    decoded = database.read(output.parent)
    assert decoded.info.collector == "mindspore"
    assert decoded.tables["api"]["level"].tolist() == ["acl"]
    assert decoded.statistics["new_in_2027"]["deviceId"].tolist() == [1]
    assert "the table NEW_IN_2027 is in no table" in decoded.notes.to_frame()["message"].iloc[-1]
