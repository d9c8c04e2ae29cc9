"""Which front end ``auto`` takes, by what is imported, what the code imports and what is installed; and why."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType

import pytest

from npuprof.collectors import registry

_FRAMEWORKS = ("torch_npu", "mindspore", "npu_bridge", "npu_device")
_KNOWN = (*_FRAMEWORKS, "acl", "npuprof.simulator.npu", "npuprof.simulator.torch_front")

Machine = Callable[..., None]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Set what is installed and what is imported; nothing of the known modules is at first."""

    def have(installed: str = "", imported: str = "") -> None:
        for name in _KNOWN:
            monkeypatch.delitem(sys.modules, name, raising=False)
        for name in imported.split():
            monkeypatch.setitem(sys.modules, name, ModuleType(name))
        monkeypatch.setattr(registry, "is_installed", lambda name: name in f"{installed} {imported}".split())
        monkeypatch.delenv("TORCH_DEVICE_BACKEND_AUTOLOAD", raising=False)

    return have


@pytest.mark.parametrize(
    ("installed", "imported", "code", "collector", "reason"),
    [
        ("acl mindspore", "torch_npu", "", "torch_npu", "torch_npu is imported in this process"),
        ("torch_npu", "mindspore", "import torch_npu", "mindspore", "mindspore is imported in this process"),
        ("torch_npu", "", "import torch_npu", "torch_npu", "torch_npu is installed, and the code imports torch_npu"),
        ("torch_npu acl", "", "x = 1\n  from torch_npu.contrib import y", "torch_npu", "imports torch_npu.contrib"),
        (
            "torch_npu acl",
            "",
            "%time\nimport os, torch as t # NPU",
            "torch_npu",
            "imports torch, which loads it",
        ),
        ("torch_npu mindspore", "", "import mindspore as ms; ms.run()", "mindspore", "the code imports mindspore"),
        ("npu_device acl", "", "try: import npu_device", "tensorflow", "npu_device is installed, and the code imports"),
        ("acl", "", "import torch_npu", "acl", "pyACL is installed"),
        (
            "acl torch_npu",
            "",
            "train()",
            "acl",
            "torch_npu, which is installed too, is not imported",
        ),
        ("torch_npu", "", "train()", "torch_npu", "torch_npu is installed, and pyACL is not"),
        ("npu_bridge", "", "", "tensorflow", "TensorFlow's adapter is installed, and pyACL is not"),
        ("mindspore", "npuprof.simulator.npu", "", "simulator", "the simulated NPU is imported; MindSpore, which"),
        ("mindspore", "", "from npuprof.simulator import npu", "simulator", "the simulated NPU is imported"),
        ("acl mindspore", "npuprof.simulator.npu", "", "acl", "pyACL is installed"),
        (
            "",
            "",
            "import torch_npu",
            "simulator",
            "no native front end is installed for this Python (pyACL,",
        ),
    ],
)
def test_auto_prefers_what_the_process_uses(
    machine: Machine, installed: str, imported: str, code: str, collector: str, reason: str
) -> None:
    machine(installed, imported)
    choice = registry.choose("auto", code)
    assert (choice.collector.name, reason in choice.reason) == (collector, True), choice.reason


def test_torch_alone_loads_torch_npu_only_where_it_may(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine("torch_npu acl")
    monkeypatch.setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    assert registry.choose("auto", "import torch").collector.name == "acl"


def test_forbidden_module_is_neither_imported_nor_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_npu", None)
    assert not registry.is_installed("torch_npu")
    assert registry.choose("auto").collector.name != "torch_npu"


@pytest.mark.parametrize(
    ("installed", "imported", "modules"),
    [
        ("torch_npu npu_device acl", "", ("torch_npu", "npu_device", "acl")),
        ("mindspore", "", ("mindspore", "npuprof.simulator.npu", "npuprof.simulator.torch_front")),
        ("torch_npu", "mindspore", ()),
        ("torch_npu", "acl", ()),
        ("acl", "", ()),
        ("", "", ()),
    ],
)
def test_an_import_is_awaited_where_it_will_decide(
    machine: Machine, installed: str, imported: str, modules: tuple[str, ...]
) -> None:
    machine(installed, imported)
    assert registry.awaited() == modules
