"""Models, their subscription as the vendor's example makes it, and the file that `acl.init` takes."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import npuprof
from npuprof import simulator
from npuprof.simulator import Simulator, acl
from npuprof.simulator.models import Node, perceptron, write_model
from tests.simulator import reading  # noqa: F401 - the machine of these tests


@pytest.fixture
def model(machine: Simulator, tmp_path: Path) -> int:
    acl.rt.set_device(0)
    model_id, code = acl.mdl.load_from_file(str(write_model(tmp_path / "perceptron.om", perceptron())))
    assert code == 0
    return model_id


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    read, write = os.pipe()
    yield read, write
    os.close(read)
    os.close(write)


def test_the_example_of_a_subscription_runs(model: int, pipe: tuple[int, int]) -> None:
    read, write = pipe
    config = acl.prof.create_subscribe_config(1, 0xFF, write)
    assert acl.prof.model_subscribe(model, config) == 0
    dataset = acl.mdl.create_dataset()
    assert acl.mdl.add_dataset_buffer(dataset, 1) == (dataset, 0)
    assert acl.mdl.execute(model, dataset, dataset) == 0
    assert acl.prof.model_unsubscribe(model) == 0
    size, code = acl.prof.get_op_desc_size()
    data = os.read(read, size * 10)
    assert (size, code, len(data)) == (80, 0, 80 * 6)
    address = acl.util.bytes_to_ptr(data)
    place = (address, len(data))
    assert acl.prof.get_op_num(*place) == (6, 0)
    found = [
        (
            acl.prof.get_op_name(*place, index, 275)[0],
            acl.prof.get_op_type(*place, index, 65)[0],
            acl.prof.get_op_name_len(*place, index),
            acl.prof.get_op_type_len(*place, index),
            acl.prof.get_op_end(*place, index) - acl.prof.get_op_start(*place, index),
            acl.prof.get_model_id(*place, index),
        )
        for index in range(6)
    ]
    assert found == [
        (
            node.name,
            node.op_type,
            (len(node.name) + 1, 0),
            (len(node.op_type) + 1, 0),
            acl.prof.get_op_duration(*place, index),
            model,
        )
        for index, node in enumerate(perceptron())
    ]
    # The layout as documented: signature, model, flag, thread, then seven 64-bit numbers, device and padding.
    fields = struct.unpack_from("<4I7QI4x", data)
    assert (fields[1], fields[2], fields[7] - fields[6], fields[11]) == (model, 0, fields[5], 0)
    assert acl.prof.destroy_subscribe_config(config) == 0
    assert acl.mdl.destroy_dataset(dataset) == 0
    assert acl.mdl.unload(model) == 0


def test_the_codes_of_subscription(machine: Simulator, model: int, pipe: tuple[int, int], tmp_path: Path) -> None:
    prof, write = acl.prof, pipe[1]
    assert prof.create_subscribe_config(1, 0xFF, 987) == 0
    assert prof.create_subscribe_config(2, 0xFF, write) == 0
    assert prof.create_subscribe_config(1, 50, write) == 0
    config = prof.create_subscribe_config(1, 0xFF, write)
    assert prof.model_subscribe(99, config) == 100011
    assert prof.model_subscribe(model, 0) == 100000
    assert prof.model_unsubscribe(model) == 100011
    assert prof.model_subscribe(model, config) == 0
    assert prof.model_subscribe(model, config) == 148046
    machine.semantics = "legacy"
    assert prof.model_subscribe(model, config) == 100033
    machine.semantics = "current"
    assert prof.init(str(tmp_path)) == 148047
    assert prof.model_un_subscribe(model) == 0
    assert prof.init(str(tmp_path)) == 0
    assert prof.model_subscribe(model, config) == 148047
    assert prof.finalize() == 0
    assert prof.destroy_subscribe_config(config) == 0
    assert prof.destroy_subscribe_config(config) == 100000


def test_without_times_there_are_none(model: int, pipe: tuple[int, int]) -> None:
    config = acl.prof.create_subscribe_config(0, 0xFF, pipe[1])
    acl.prof.model_subscribe(model, config)
    acl.mdl.execute(model, 0, 0)
    acl.prof.model_unsubscribe(model)
    data = os.read(pipe[0], 8000)
    assert acl.prof.get_op_start(acl.util.bytes_to_ptr(data), len(data), 0) == 0


@pytest.mark.parametrize("length", [0, 79, -1])
def test_memory_without_whole_descriptions_is_refused(machine: Simulator, length: int) -> None:
    data = bytes(200)
    address = acl.util.bytes_to_ptr(data)
    assert acl.prof.get_op_num(address, length)[1] == 100000
    assert acl.prof.get_op_name(address, length, 0, 257) == ("", 100000)
    assert acl.prof.get_op_start(address, length, 0) == 0
    assert acl.prof.get_op_type(address, 160, 2, 65) == ("", 100000)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00OM",
        b"[]",
        b"{}",
        b'{"format": "npuprof-simulated-model", "nodes": [{}]}',
        json.dumps(
            {
                "format": "npuprof-simulated-model",
                "nodes": [{"name": "a", "op_type": "A", "core": "GPU", "flops": 1, "inputs": [], "outputs": []}],
            }
        ).encode(),
    ],
)
def test_foreign_model_is_refused(machine: Simulator, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "real.om").write_bytes(content)
    assert acl.mdl.load_from_file(str(tmp_path / "real.om")) == (0, 100003)
    assert acl.mdl.load_from_file(str(tmp_path / "missing.om")) == (0, 100003)


def test_a_model_needs_a_device_and_an_id(machine: Simulator, tmp_path: Path) -> None:
    assert acl.mdl.execute(77, 0, 0) == 100011
    assert acl.mdl.unload(77) == 100011
    content = write_model(tmp_path / "one.om", [Node("a", "Add")]).read_bytes()
    model, code = acl.mdl.load_from_mem(acl.util.bytes_to_ptr(content), len(content))
    assert code == 0
    simulator.current().runtime.contexts.clear()
    assert acl.mdl.execute(model, 0, 0) == 107002


def test_a_file_given_to_init_records_all_until_finalize(model: int, tmp_path: Path) -> None:
    config = tmp_path / "acl.json"
    config.write_text(
        json.dumps({"profiler": {"switch": "on", "output": str(tmp_path / "out"), "aic_metrics": "Memory", "l2": "on"}})
    )
    assert acl.init(str(config)) == 0
    assert acl.prof.init(str(tmp_path)) == 148047
    assert acl.prof.finalize() == 148047
    acl.mdl.execute(model, 0, 0)
    assert acl.finalize() == 0
    (directory,) = (tmp_path / "out").glob("PROF_*")
    run = npuprof.load(directory)
    assert isinstance(run, npuprof.Profile)
    assert run.kernels["op_name"].astype(str).tolist() == [node.name for node in perceptron()]
    assert any("main_mem" in column for column in run.kernels.columns)
    assert acl.prof.init(str(tmp_path)) == 0
    assert acl.prof.finalize() == 0


def on(**keys: Any) -> dict[str, Any]:
    return {"profiler": {"switch": "on", **keys}}


@pytest.mark.parametrize(
    ("plain", "code"),
    [
        ({}, 0),
        ({"dump": {}}, 0),
        ({"profiler": {}}, 0),
        ({"profiler": {"switch": "off"}}, 0),
        (on(), 0),
        (on(task_time="l0", ge_api="l1", msproftx="on", hccl="on", aicpu="on", task_memory="on"), 0),
        (on(storage_limit="200MB", sys_hardware_mem_freq=50, llc_profiling="read", host_sys="cpu,mem"), 0),
        (on(instr_profiling="on", instr_profiling_freq=300), 0),
        ({"profiler": {"switch": "yes"}}, 100010),
        ({"profiler": []}, 100010),
        ([], 100010),
        (on(l2=True), 100010),
        (on(aic_metrics="Pipes"), 100010),
        (on(sys_hardware_mem_freq="50"), 100010),
        (on(sys_hardware_mem_freq=101), 100010),
        (on(instr_profiling_freq=299), 100010),
        (on(storage_limit="100MB"), 100010),
        (on(output=""), 100010),
        (on(training_trace="on"), 200006),
        (on(task_trace="on"), 200006),
        (on(fp_point="a"), 200006),
        (on(colour="red"), 200006),
    ],
)
def test_which_files_init_takes(
    machine: Simulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain: Any, code: int
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "acl.json").write_text(json.dumps(plain))
    assert acl.init(str(tmp_path / "acl.json")) == code
    switched_on = code == 0 and plain.get("profiler", {}).get("switch") == "on"
    assert simulator.current().profiler.initialised is switched_on
    assert acl.finalize() == (0 if code == 0 else 100001)
    assert bool(list(tmp_path.glob("PROF_*"))) is switched_on
