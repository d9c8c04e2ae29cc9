"""The real TensorFlow on the CPU: the configurations of ours in its own protobufs, sessions and Estimators.

An optimizer of the adapter's name is compiled and registered with TensorFlow's graph optimizer; it writes down what
TensorFlow hands to it, and leaves the graph as it is.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests import pace

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(
        not os.environ.get("NPUPROF_HEAVY"),
        reason="set NPUPROF_HEAVY=1, and NPUPROF_TENSORFLOW to a Python that has TensorFlow if there is one",
    ),
]
_VERSION = "2.15.*"  # the last with Estimators, for Python 3.9 to 3.11
_ROOT = Path(__file__).parents[2]

_OPTIMIZER = """
#include <cstdlib>
#include <fstream>

#include "tensorflow/core/grappler/grappler_item.h"
#include "tensorflow/core/grappler/optimizers/custom_graph_optimizer.h"
#include "tensorflow/core/grappler/optimizers/custom_graph_optimizer_registry.h"

namespace tensorflow::grappler {

class NpuOptimizer : public CustomGraphOptimizer {
 public:
  Status Init(const RewriterConfig_CustomGraphOptimizer* config) override {
    std::ofstream(std::getenv("TAKEN"), std::ios::app) << config->ShortDebugString() << std::endl;
    return OkStatus();
  }
  std::string name() const override { return "NpuOptimizer"; }
  bool UsesFunctionLibrary() const override { return false; }
  Status Optimize(Cluster*, const GrapplerItem& item, GraphDef* optimized) override {
    *optimized = item.graph;
    return OkStatus();
  }
};

REGISTER_GRAPH_OPTIMIZER_AS(NpuOptimizer, "NpuOptimizer");

}  // namespace tensorflow::grappler
"""

_FLAGS = """
import json, tensorflow
print(json.dumps([tensorflow.sysconfig.get_compile_flags(), tensorflow.sysconfig.get_link_flags()]))
"""

_HEAD = """
import json, os, sys, warnings
from types import ModuleType
import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig
from npuprof import Options, tensorflow as ours

v1 = tf.compat.v1
v1.disable_eager_execution()
tf.load_library(os.environ["OPTIMIZER"])
warnings.simplefilter("ignore", DeprecationWarning)

def parameters(optimizer):
    kinds = {name: value.WhichOneof("value") for name, value in optimizer.parameter_map.items()}
    plain = {name: getattr(optimizer.parameter_map[name], kind) for name, kind in kinds.items()}
    return {name: [kinds[name], value.decode() if isinstance(value, bytes) else value] for name, value in plain.items()}

def taken():
    \"\"\"Give what TensorFlow has handed to the optimizer so far.\"\"\"
    lines = open(os.environ["TAKEN"]).read().splitlines() if os.path.exists(os.environ["TAKEN"]) else []
    return [parameters(text_format.Parse(line, RewriterConfig.CustomGraphOptimizer())) for line in lines]

def product(session):
    x = v1.placeholder(tf.float32, [2, 2])
    return session.run(tf.matmul(x, x), {x: np.ones((2, 2))}).tolist()

def rows():
    return tf.data.Dataset.from_tensors((tf.ones([4, 2]), tf.ones([4, 1]))).repeat()

def model(features, labels, mode):
    loss = v1.losses.mean_squared_error(labels, v1.layers.dense(features, 1))
    step = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step)

def trained(config):
    estimator = tf.estimator.Estimator(model, config=config)
    estimator.train(rows, steps=3)
    return int(estimator.get_variable_value("global_step"))

def tell(**values):
    print("told", json.dumps(values))
"""

_SESSION = """
asked = Options(level=2, aic_metrics="Memory", memory=True, output="kept")
config = ours.session_config(asked, chip="Ascend910B3")
rewriting = config.graph_options.rewrite_options
with v1.Session(config=config) as session:
    result = product(session)
(optimizer,) = rewriting.custom_optimizers
tell(
    result=result,
    made=parameters(optimizer),
    taken=taken(),
    remapping=RewriterConfig.Toggle.Name(rewriting.remapping),
    text=ours.profiling_options(asked, chip="Ascend910B3"),
)
"""

_OWN = """
config = v1.ConfigProto(allow_soft_placement=True)
own = config.graph_options.rewrite_options.custom_optimizers.add()
own.name = "NpuOptimizer"
own.parameter_map["precision_mode"].s = b"allow_mix_precision"
with v1.Session() as session, warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    same = ours.session_config(Options(output="kept"), config) is config
    told = [str(one.message) for one in told]
with v1.Session(config=config) as session:
    product(session)
tell(same=same, told=told, soft=config.allow_soft_placement, taken=taken())
"""

_ESTIMATOR = """
config = tf.estimator.RunConfig(session_config=ours.session_config(Options(output="kept")))
tell(steps=trained(config), taken=taken())
"""

# The adapter's classes, as its documentation has them, over TensorFlow's own RunConfig.
_ADAPTER = """
class ProfilingConfig:
    def __init__(self, enable_profiling=False, profiling_options=None):
        self.enable_profiling, self.profiling_options = enable_profiling, profiling_options

class NPURunConfig(tf.estimator.RunConfig):
    def __init__(self, iterations_per_loop=1, profiling_config=None, session_config=None, **others):
        session_config = session_config or v1.ConfigProto()
        optimizer = session_config.graph_options.rewrite_options.custom_optimizers.add()
        optimizer.name = "NpuOptimizer"
        optimizer.parameter_map["profiling_mode"].b = profiling_config.enable_profiling
        optimizer.parameter_map["profiling_options"].s = tf.compat.as_bytes(profiling_config.profiling_options)
        super().__init__(session_config=session_config, **others)

names = ("npu_bridge", "npu_bridge.estimator", "npu_bridge.estimator.npu", "npu_bridge.estimator.npu.npu_config")
for name in names:
    sys.modules[name] = ModuleType(name)
sys.modules[names[-1]].ProfilingConfig = ProfilingConfig
sys.modules[names[-1]].NPURunConfig = NPURunConfig

config = ours.run_config(Options(output="kept"), model_dir="model", session_config=v1.ConfigProto())
steps = trained(config)
text = ours.profiling_options(Options(output="kept"))
tell(steps=steps, taken=taken(), text=text, is_tensorflows=isinstance(config, tf.estimator.RunConfig))
"""

_TF2 = """
class Settings:
    __slots__ = ("enable_profiling", "profiling_options")

class GlobalOptions:
    __slots__ = ("profiling_config",)
    def __init__(self):
        self.profiling_config = Settings()

device = sys.modules["npu_device"] = ModuleType("npu_device")
made = GlobalOptions()
device.global_options = lambda: made
same = ours.global_options(Options(output="kept")) is made
text = ours.profiling_options(Options(output="kept"))
tell(same=same, enabled=made.profiling_config.enable_profiling, text=made.profiling_config.profiling_options == text)
"""


class TensorFlow(NamedTuple):
    """A Python that has TensorFlow and npuprof, and the library of the optimizer."""

    python: str
    optimizer: Path


@pytest.fixture(scope="module")
def tensorflow(tmp_path_factory: pytest.TempPathFactory) -> TensorFlow:
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("a C++ compiler (c++) is needed to register an optimizer")
    home = tmp_path_factory.mktemp("tensorflow")
    python = os.environ.get("NPUPROF_TENSORFLOW")
    if python is None:
        if sys.version_info >= (3, 12):
            pytest.skip("TensorFlow 2.15 needs Python 3.11 or older: set NPUPROF_TENSORFLOW to one that has it")
        venv.create(home / "venv", with_pip=True)
        python = str(home / "venv" / "bin" / "python")
        install = [python, "-m", "pip", "install", "-q", f"tensorflow-cpu=={_VERSION}", str(_ROOT)]
        subprocess.run(install, check=True, timeout=pace.seconds(1200))
    told = subprocess.run([python, "-c", _FLAGS], capture_output=True, text=True, check=True, timeout=pace.seconds(300))
    compile_flags, link_flags = json.loads(told.stdout)
    source, library = home / "optimizer.cc", home / "optimizer.so"
    source.write_text(_OPTIMIZER)
    command = [compiler, *compile_flags, "-shared", "-fPIC", "-o", library, source, *link_flags]
    subprocess.run(command, check=True, timeout=pace.seconds(600))
    return TensorFlow(python, library)


def _run(tensorflow: TensorFlow, program: str, directory: Path) -> dict[str, Any]:
    variables = {"PYTHONPATH": str(_ROOT), "OPTIMIZER": str(tensorflow.optimizer), "TAKEN": str(directory / "taken")}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PROFILING_")}
    done = subprocess.run(
        [tensorflow.python, "-c", _HEAD + program],
        capture_output=True,
        text=True,
        cwd=directory,
        env={**inherited, "CUDA_VISIBLE_DEVICES": "", **variables},
        timeout=pace.seconds(300),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("told ")]
    told: dict[str, Any] = json.loads(line.removeprefix("told "))
    return told


def test_a_session_hands_the_documented_parameters_to_the_optimizer(tensorflow: TensorFlow, tmp_path: Path) -> None:
    told = _run(tensorflow, _SESSION, tmp_path)
    expected = {"use_off_line": ["b", True], "profiling_mode": ["b", True], "profiling_options": ["s", told["text"]]}
    assert told["made"] == expected
    assert told["taken"]
    assert all(taken == expected for taken in told["taken"])
    assert told["remapping"] == "OFF"
    assert told["result"] == [[2.0, 2.0], [2.0, 2.0]]
    asked = json.loads(told["text"])
    assert asked["output"] == str(tmp_path / "kept")
    assert {"aic_metrics", "task_memory", "sys_hardware_mem_freq", "aicpu", "runtime_api"} <= set(asked)


def test_existing_configuration_is_kept(tensorflow: TensorFlow, tmp_path: Path) -> None:
    told = _run(tensorflow, _OWN, tmp_path)
    assert told["same"]
    assert told["soft"]
    assert [message for message in told["told"] if "exists already" in message]
    for taken in told["taken"]:
        assert set(taken) == {"precision_mode", "profiling_mode", "profiling_options"}
        assert taken["precision_mode"] == ["s", "allow_mix_precision"]


def test_an_estimator_trains_with_the_session_configuration(tensorflow: TensorFlow, tmp_path: Path) -> None:
    told = _run(tensorflow, _ESTIMATOR, tmp_path)
    assert told["steps"] == 3
    assert told["taken"]
    assert all(set(taken) == {"use_off_line", "profiling_mode", "profiling_options"} for taken in told["taken"])


def test_an_estimator_trains_with_the_run_configuration(tensorflow: TensorFlow, tmp_path: Path) -> None:
    told = _run(tensorflow, _ADAPTER, tmp_path)
    assert told["is_tensorflows"]
    assert told["steps"] == 3
    expected = {"profiling_mode": ["b", True], "profiling_options": ["s", told["text"]]}
    assert told["taken"]
    assert all(taken == expected for taken in told["taken"])


def test_global_options_set_the_documented_fields_beside_the_real_tensorflow(
    tensorflow: TensorFlow, tmp_path: Path
) -> None:
    assert _run(tensorflow, _TF2, tmp_path) == {"same": True, "enabled": True, "text": True}
