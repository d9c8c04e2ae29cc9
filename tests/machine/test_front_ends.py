"""Front ends as the doctor looks at them: packages of this test's own stand in for the frameworks."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from pathlib import Path

import pytest

from npuprof.machine import doctor as front_ends
from npuprof.machine import environment
from npuprof.machine.doctor import FrontEndState, run_probe
from tests.collectors import msprof_double

_TORCH = {
    "torch/__init__.py": "__version__ = '2.1'\nclass cuda:\n    is_available = staticmethod(lambda: False)",
    "torch/profiler.py": "",
}
_TORCH_NPU = {
    "torch_npu/__init__.py": "__version__ = '2.1.0'\nclass npu:\n    device_count = staticmethod(lambda: {count})\n"
    "    get_device_name = staticmethod(lambda number: 'Ascend910B4')",
    "torch_npu/profiler.py": "",
}
_MINDSPORE = {
    "mindspore/__init__.py": "__version__ = '2.5.0'\nget_context = lambda key: 'Ascend'",
    "mindspore/profiler.py": "",
}
_TENSORFLOW = {"tensorflow.py": "__version__ = '2.6.5'", "npu_device.py": ""}
_ACL = {
    "acl.py": "class prof: pass\nclass rt:\n    get_device_count = staticmethod(lambda: {devices})\n"
    "get_soc_name = lambda: 'Ascend910B4'"
}


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the only directory in which packages of frameworks are found."""
    if any(importlib.util.find_spec(name) for name in ("acl", "torch", "torch_npu", "mindspore", "tensorflow")):
        pytest.skip("a framework is installed here")
    folder = tmp_path / "packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("ASCEND_HOME_PATH", raising=False)
    return folder


def put(folder: Path, files: dict[str, str], **values: object) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        for key, value in values.items():
            text = text.replace(f"{{{key}}}", str(value))
        (folder / name).write_text(text + "\n")


def found(name: str) -> FrontEndState:
    return next(one for one in front_ends.look() if one.name == name)


def test_nothing_installed_is_absent_with_the_way_to_get_it(install: Path) -> None:
    states = {one.name: (one.state, one.detail) for one in front_ends.look()}
    assert states.pop("simulator")[0] == "ok"
    assert {state for state, _ in states.values()} == {"absent"}
    assert all("install" in detail for _, detail in states.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "files", "seen"),
    [
        ("acl", {"acl.py": _ACL["acl.py"].replace("{devices}", "(8, 0)")}, "devices 8, code 0.*chip Ascend910B4"),
        (
            "torch_npu",
            {**_TORCH, **{name: text.replace("{count}", "2") for name, text in _TORCH_NPU.items()}},
            "devices 2, torch 2.1, torch_npu 2.1.0, chip Ascend910B4",
        ),
        ("mindspore", _MINDSPORE, "mindspore 2.5.0, target Ascend"),
        ("tensorflow", _TENSORFLOW, "tensorflow 2.6.5, adapter npu_device"),
        ("kineto", _TORCH, "torch 2.1, gpus 0"),
    ],
)
def test_front_ends_are_tried_in_a_process(install: Path, name: str, files: dict[str, str], seen: str) -> None:
    put(install, files)
    before = set(sys.modules)
    one = found(name)
    assert one.state == "ok", one.detail
    assert re.search(seen, one.detail), one.detail
    assert not {"torch", "mindspore", "tensorflow", "acl"} & (set(sys.modules) - before)


@pytest.mark.parametrize("devices", [(0, 0), (1, 507000)])
def test_no_device_is_a_problem_that_names_the_driver(install: Path, devices: tuple[int, int]) -> None:
    put(install, _ACL, devices=devices)
    one = found("acl")
    assert (one.state, "npu-smi info" in one.detail) == ("problem", True)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("raise ImportError('libhccl.so: cannot open')", "ImportError: libhccl.so: cannot open"),
        ("import os; os._exit(7)", "ended the process with status 7"),
        ("x = 1", "is not pyACL"),
    ],
)
def test_an_import_that_fails_is_a_problem_with_its_reason(install: Path, text: str, told: str) -> None:
    put(install, {"acl.py": text})
    one = found("acl")
    assert one.state == "problem"
    assert told in one.detail
    assert "CANN toolkit" in one.detail


def test_import_alone_is_not_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in environment.ASKING:
        monkeypatch.setenv(name, "{}")
    facts, _ = run_probe("import os; report(left=[name for name in os.environ if name.endswith('_OPTIONS')])")
    assert facts == {"left": []}


@pytest.mark.slow
def test_an_import_that_hangs_ends(install: Path) -> None:
    put(install, {"acl.py": "import time; time.sleep(60)"})
    assert run_probe("import acl", 0.5) == ({}, "importing it took more than 0.5 s")


def test_what_an_import_prints_is_no_answer() -> None:
    assert run_probe("print('npuprof-probe'); report(a=1); print('bye')") == ({"a": 1}, "")


@pytest.mark.parametrize(("status", "state"), [(0, "ok"), (1, "problem")])
def test_msprof_is_asked_for_its_help(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, state: str) -> None:
    tool = tmp_path / "msprof"
    tool.write_text(f"#!/bin/sh\nexit {status}\n")
    tool.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    one = front_ends._msprof()
    assert one.state == state
    assert str(tool) in one.detail


def test_a_tool_that_cannot_be_run_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = msprof_double.install(tmp_path)
    tool.write_text("#!/no/such/interpreter\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert front_ends._msprof().state == "problem"
