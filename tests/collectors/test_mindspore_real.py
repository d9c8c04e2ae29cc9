"""The real MindSpore on the CPU: its profiler driven by ours, in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import venv
from pathlib import Path
from typing import Any

import pytest

from tests import pace

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(
        not os.environ.get("NPUPROF_HEAVY"),
        reason="set NPUPROF_HEAVY=1, and NPUPROF_MINDSPORE to a Python that has MindSpore if there is one",
    ),
]
_VERSION = "2.10.0"
_ROOT = Path(__file__).parents[2]

_HEAD = """
import json, warnings
import numpy as np
import mindspore as ms
from mindspore import nn, ops
import npuprof

net = nn.Dense(4, 4)
batch = ms.Tensor(np.ones((2, 4), np.float32))

def facts(run):
    return {
        "operators": run.operators["name"].astype(str).tolist(),
        "steps": run.steps["step"].tolist(),
        "of_step": run.operators["step"].fillna(-1).tolist(),
        "memory": len(run.memory),
        "python": len(run.python),
        "collector": run.info.collector,
        "versions": run.info.versions,
        "notes": run.notes["message"].tolist(),
    }

def tell(value):
    print("told", json.dumps(value))
"""

_SCHEDULE = """
plan = npuprof.schedule(wait=1, active=2, repeat=2)
with npuprof.profile(activities="cpu,npu", memory=True, shapes=True, output="out", schedule=plan) as prof:
    prof.add_metadata("lr", [0.1])
    for _ in range(6):
        with npuprof.range("forward", domain="train"):
            ops.relu(net(batch)).asnumpy()
        npuprof.mark("step")
        prof.step()
tell({"reason": prof.reason, "problems": prof.recording.problems, "runs": [facts(run) for run in prof.results]})
"""

_OLDER = """
import mindspore.profiler
del mindspore.profiler.profile  # as in releases that have the older one only
for _ in range(2):
    with npuprof.profile(activities="cpu", output="out", collector="mindspore") as prof:
        ops.relu(net(batch)).asnumpy()
tell({"problems": prof.recording.problems, "runs": [facts(prof.result)]})
"""

_CALLBACKS = """
import mindspore.dataset as ds
from npuprof.callbacks import StopAtEpoch, StopAtStep

def rows():
    for _ in range(4):
        yield np.ones([2, 4]).astype(np.float32), np.ones([2]).astype(np.int32)

data = ds.GeneratorDataset(rows, ["data", "label"])
loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True)
model = ms.train.Model(net, loss, nn.Momentum(net.trainable_params(), 0.1, 0.9))
ms.set_context(mode=ms.PYNATIVE_MODE)
steps = StopAtStep(2, 3, activities="cpu", output="out")
model.train(1, data, callbacks=[steps], dataset_sink_mode=False)
epochs = StopAtEpoch(2, 2, activities="cpu", output="out")
model.train(3, data, callbacks=[epochs], dataset_sink_mode=False)
tell([facts(steps.profiler.result), facts(epochs.profiler.result), isinstance(steps, ms.Callback)])
"""

_BUSY = """
try:
    npuprof.profile(activities="cpu", output="out").start()
except npuprof.NpuprofError as error:
    tell(str(error))
"""


_OF_MSRUN = """
import os, subprocess, sys, tempfile
if "init" in sys.argv:
    from mindspore.communication import init
    init()
    ops.relu(net(batch)).asnumpy()
    sys.exit()
msrun = [sys.executable, "-m", "mindspore.parallel.cluster.run", "--worker_num=2", "--local_worker_num=2"]
with npuprof.profile(processes=True, activities="cpu", output="out") as session:
    done = subprocess.run([*msrun, "--master_port=8137", "--log_dir=log", "--join=True", os.environ["WORK"], "init"])
tell([done.returncode, {run.info.rank: facts(run) for run in session.result}])
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python that has MindSpore and npuprof."""
    if given := os.environ.get("NPUPROF_MINDSPORE"):
        return given
    home = tmp_path_factory.mktemp("mindspore")
    venv.create(home, with_pip=True)
    python = str(home / "bin" / "python")
    install = [python, "-m", "pip", "install", "-q", f"mindspore=={_VERSION}", str(_ROOT)]
    subprocess.run(install, check=True, timeout=pace.seconds(1200))
    return python


def _run(python: str, program: str, directory: Path, **variables: str) -> Any:
    done = subprocess.run(
        [python, "-c", _HEAD + program],
        capture_output=True,
        text=True,
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(_ROOT), **variables},
        timeout=pace.seconds(300),
    )
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("told ")]
    return json.loads(line.removeprefix("told ")), done.stderr


def test_each_cycle_of_a_schedule_is_a_run_with_mindspores_operators(python: str, tmp_path: Path) -> None:
    told, said = _run(python, _SCHEDULE, tmp_path)
    assert told["reason"] == "mindspore is imported in this process"
    assert told["problems"] == []
    assert [run["steps"] for run in told["runs"]] == [[1, 2], [4, 5]]
    for run in told["runs"]:
        assert run["collector"] == "mindspore"
        assert {"MatMul", "ReLU"} <= set(run["operators"])
        assert {step for step in run["of_step"] if step >= 0} == set(run["steps"])
        assert run["memory"] > 0
        assert run["versions"]["mindspore_device"] == "CPU"
        assert any("MindSpore ran on CPU" in note for note in run["notes"])
    assert "MindSpore's device is CPU, not Ascend" in said
    results = sorted((tmp_path / "out").glob("*/*_ascend_ms"))
    assert [(one / "profiler_metadata.json").is_file() for one in results] == [True, False]
    assert json.loads((results[0] / "profiler_metadata.json").read_text()) == {"lr": [0.1]}
    assert "Incorrect schedule" not in said


def test_the_older_profiler_gives_the_process_back_without_analysing(python: str, tmp_path: Path) -> None:
    told, _ = _run(python, _OLDER, tmp_path)
    assert told["problems"] == []
    assert {"MatMul", "ReLU"} <= set(told["runs"][0]["operators"])
    assert len(list((tmp_path / "out").glob("*/*_ascend_ms"))) == 2
    assert not list((tmp_path / "out").glob("*/*_ascend_ms/ASCEND_PROFILER_OUTPUT"))


def test_models_callbacks_profile_the_steps_and_epochs_asked_for(python: str, tmp_path: Path) -> None:
    (steps, epochs, is_callback), _ = _run(python, _CALLBACKS, tmp_path)
    assert is_callback
    assert steps["steps"] == [2, 3]
    assert any("MatMul" in name for name in steps["operators"])
    assert any("MatMul" in name for name in epochs["operators"])


def test_mindspores_own_profiler_by_the_environment_is_not_disturbed(python: str, tmp_path: Path) -> None:
    wanted = json.dumps({"start": True, "output_path": str(tmp_path / "theirs"), "activities": ["CPU"]})
    told, _ = _run(python, _BUSY, tmp_path, MS_PROFILER_OPTIONS=wanted)
    assert "begun by MS_PROFILER_OPTIONS when MindSpore was imported" in told
    assert len(list((tmp_path / "theirs").glob("*_ascend_ms"))) == 1


def test_the_workers_of_msrun_are_ranks_and_its_scheduler_is_none(python: str, tmp_path: Path) -> None:
    work = tmp_path / "work.py"
    work.write_text(_HEAD + _OF_MSRUN)
    path = f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}"  # where msrun looks for the Python of its workers
    (status, runs), _ = _run(python, _OF_MSRUN, tmp_path, WORK=str(work), PATH=path)
    assert status == 0
    assert {*runs} == {"0", "1"}
    for run in runs.values():
        assert run["collector"] == "mindspore"
        assert {"MatMul", "ReLU"} <= set(run["operators"])
