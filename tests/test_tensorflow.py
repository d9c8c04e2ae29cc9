"""The inlets of TensorFlow by which a whole session is collected, against doubles with the vendor's signatures."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from npuprof import tensorflow
from npuprof.errors import FrontEndAbsentError, NpuprofError, NpuprofWarning, OptionsError
from npuprof.options import Options

_OFF = 2


class ProfilingConfig:
    def __init__(self, enable_profiling: bool = False, profiling_options: str | None = None) -> None:
        self.enable_profiling, self.profiling_options = enable_profiling, profiling_options


class NPURunConfig:
    def __init__(
        self, *, profiling_config: Any = None, session_config: Any = None, iterations_per_loop: int = 1
    ) -> None:
        self.profiling_config, self.session_config = profiling_config, session_config


class Optimizers(list[Any]):
    def add(self) -> Any:
        self.append(SimpleNamespace(name="", parameter_map=defaultdict(SimpleNamespace)))
        return self[-1]


class ConfigProto:
    def __init__(self) -> None:
        rewriting = SimpleNamespace(custom_optimizers=Optimizers(), remapping=0)
        self.graph_options = SimpleNamespace(rewrite_options=rewriting)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Put doubles of TensorFlow and its adapters in place; gives what changes in them."""
    state = SimpleNamespace(session=None, options=SimpleNamespace(profiling_config=ProfilingConfig()))
    v1 = SimpleNamespace(ConfigProto=ConfigProto, get_default_session=lambda: state.session)
    modules: dict[str, dict[str, Any]] = {
        "tensorflow": {"compat": SimpleNamespace(v1=v1)},
        **{f"tensorflow.core{part}": {} for part in ("", ".protobuf")},
        "tensorflow.core.protobuf.rewriter_config_pb2": {"RewriterConfig": SimpleNamespace(OFF=_OFF)},
        **{f"npu_bridge{part}": {} for part in ("", ".estimator", ".estimator.npu")},
        "npu_bridge.estimator.npu.npu_config": {"NPURunConfig": NPURunConfig, "ProfilingConfig": ProfilingConfig},
        "npu_device": {"global_options": lambda: state.options},
    }
    for name, names in modules.items():
        module = ModuleType(name)
        vars(module).update(names)
        monkeypatch.setitem(sys.modules, name, module)
    return state


def test_an_estimators_configuration_collects(installed: Any, tmp_path: Path) -> None:
    options = Options(output=tmp_path / "prof")
    config = tensorflow.run_config(options, session_config="kept")
    assert (config.session_config, config.profiling_config.enable_profiling) == ("kept", True)
    assert config.profiling_config.profiling_options == tensorflow.profiling_options(options)
    assert (tmp_path / "prof").is_dir()


def test_a_configuration_of_the_users_own_in_run_config_is_refused(installed: Any) -> None:
    with pytest.raises(OptionsError, match="leave it out"):
        tensorflow.run_config(profiling_config=ProfilingConfig())


def test_a_sessions_configuration_collects(installed: Any, tmp_path: Path) -> None:
    config = tensorflow.session_config(Options(output=tmp_path))
    rewriting = config.graph_options.rewrite_options
    (optimizer,) = rewriting.custom_optimizers
    assert optimizer.name == "NpuOptimizer"
    assert optimizer.parameter_map["use_off_line"].b is True
    assert optimizer.parameter_map["profiling_mode"].b is True
    assert json.loads(optimizer.parameter_map["profiling_options"].s)["output"] == str(tmp_path)
    assert rewriting.remapping == _OFF


def test_users_configuration_is_kept(installed: Any, tmp_path: Path) -> None:
    mine = ConfigProto()
    optimizer = mine.graph_options.rewrite_options.custom_optimizers.add()
    optimizer.name = "NpuOptimizer"
    optimizer.parameter_map["use_off_line"].b = False
    assert tensorflow.session_config(Options(output=tmp_path), mine) is mine
    assert len(mine.graph_options.rewrite_options.custom_optimizers) == 1
    assert optimizer.parameter_map["use_off_line"].b is False
    assert optimizer.parameter_map["profiling_mode"].b is True


def test_the_options_of_tensorflow_2_collect(installed: Any, tmp_path: Path) -> None:
    found = tensorflow.global_options(Options(output=tmp_path, level=0))
    assert found is installed.options
    assert found.profiling_config.enable_profiling is True
    assert json.loads(found.profiling_config.profiling_options)["task_time"] == "l0"


@pytest.mark.parametrize(("graph_engine", "prefix"), [(False, ""), (True, "GE_")])
def test_the_environment_needs_no_tensorflow(tmp_path: Path, graph_engine: bool, prefix: str) -> None:
    variables = tensorflow.environment(Options(output=tmp_path), graph_engine=graph_engine)
    assert list(variables) == [f"{prefix}PROFILING_MODE", f"{prefix}PROFILING_OPTIONS"]
    assert variables[f"{prefix}PROFILING_MODE"] == "true"
    tensorflow.check_profiling_options(variables[f"{prefix}PROFILING_OPTIONS"])


@pytest.mark.parametrize("inlet", [tensorflow.session_config, tensorflow.run_config])
def test_that_a_session_which_exists_is_not_collected_is_reported(installed: Any, tmp_path: Path, inlet: Any) -> None:
    installed.session = object()
    with pytest.warns(NpuprofWarning, match="begins with the next session"):
        inlet(Options(output=tmp_path))


def test_variables_that_this_comes_before_are_reported(
    installed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROFILING_MODE", "true")
    with pytest.warns(NpuprofWarning, match="takes precedence"):
        tensorflow.session_config(Options(output=tmp_path))


@pytest.mark.parametrize("inlet", [tensorflow.session_config, tensorflow.run_config, tensorflow.global_options])
def test_without_tensorflow_it_is_absent(inlet: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tensorflow", "npu_bridge", "npu_device"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(FrontEndAbsentError, match="environment"):
        inlet(Options(output=tmp_path))


def test_an_output_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NpuprofError, match="choose another output"):
        tensorflow.profiling_options(Options(output=tmp_path / "file" / "below"))
