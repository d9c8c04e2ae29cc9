"""Files of other tools are refused by name, with what can be opened instead."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import npuprof
from npuprof.errors import SourceError
from tests.sources.kineto.traces import KinetoTrace

_PACKETS = b"".join(b"\x0a\x06\x08" + bytes([number]) + b"\x10\x02\x18\x03" for number in range(40))
_NODES = {"schema": "1.1.1-chakra.0.0.4", "pid": 7, "nodes": [{"id": 2, "name": "aten::mm", "ctrl_deps": 1}]}
_SDK = {"rocprofiler-sdk-tool": [{"metadata": {"pid": 1}, "buffer_records": {"kernel_dispatch": []}}]}
_V1 = {"traceEvents": [{"ph": "X", "name": "k", "pid": 2, "tid": 1, "ts": "1", "dur": "2", "args": {"BeginNs": "1"}}]}


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("t.pftrace", _PACKETS, "Perfetto.*ui.perfetto.dev"),
        ("no_ending", _PACKETS, "Perfetto.*ui.perfetto.dev"),
        ("host.xplane.pb", b"\x0a\x20\x08\x01\x12\x09/host:CPU" + bytes(20), "XSpace.*XProf"),
        ("copy.pb", b"\x0a\x20\x08\x01\x12\x0d/device:GPU:0" + bytes(20), "XSpace.*XProf"),
        ("r.nsys-rep", b"NVSYS" * 9, "Nsight Systems.*nsys-ui"),
        ("r.sqlite", ["CUPTI_ACTIVITY_KIND_KERNEL", "StringIds"], "Nsight Systems.*nsys-ui"),
        ("r.ncu-rep", b"NVR" * 9, "Nsight Compute"),
        ("out_results.json", _SDK, "rocprof.*torch.profiler"),
        ("results.json", _V1, "rocprof.*torch.profiler"),
        ("results.db", ["rocpd_kernel_dispatch", "rocpd_string"], "rocprof.*torch.profiler"),
        ("et_rank0.json", _NODES, "execution trace of PyTorch.*export_chrome_trace"),
    ],
)
def test_names_the_kind(tmp_path: Path, name: str, content: Any, kind: str) -> None:
    path = tmp_path / name
    if isinstance(content, list):
        with sqlite3.connect(path) as database:
            for table in content:
                database.execute(f"CREATE TABLE {table} (id INTEGER)")
        database.close()
    else:
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(SourceError, match=f"{kind}.*npuprof reads"):
        npuprof.load(path)


def test_leaves_nothing_beside_a_database(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE rocpd_string (id INTEGER)")
    database.close()
    with pytest.raises(SourceError):
        npuprof.load(path)
    assert list(tmp_path.iterdir()) == [path]


def test_names_the_kind_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "plugins" / "profile").mkdir(parents=True)
    (tmp_path / "plugins" / "profile" / "host.xplane.pb").write_bytes(b"\x0a\x20\x08\x01\x12\x09/host:CPU")
    with pytest.raises(SourceError, match=r"host\.xplane\.pb is a profile of JAX"):
        npuprof.load(tmp_path)


def test_reads_traces_that_mention_other_tools(tmp_path: Path) -> None:
    trace = KinetoTrace()
    trace.operator('"BeginNs": "rocprofiler-sdk-tool"', 0, 5, 1)
    assert len(npuprof.load(trace.write(tmp_path / "t.json")).operators) == 1
