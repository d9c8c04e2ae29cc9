"""What is told where torch is missing, or too old."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace

import pytest

from npuprof import simulator
from npuprof.errors import FrontEndAbsentError
from npuprof.simulator.torch_front.front import load_torch


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Torch is looked for anew."""
    load_torch.cache_clear()
    yield
    load_torch.cache_clear()


@pytest.mark.parametrize("error", [ModuleNotFoundError("No module named 'torch'"), OSError("libgomp"), RuntimeError()])
def test_a_torch_that_cannot_be_imported_is_absent(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.import_module

    def load(name: str, package: str | None = None) -> ModuleType:
        if name.startswith("torch"):
            raise error
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", load)
    with pytest.raises(FrontEndAbsentError, match=r"torch cannot be imported.*pip install torch"):
        simulator.torch()


def test_old_torch_is_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    old = SimpleNamespace(__version__="1.8.0", _C=SimpleNamespace(_current_graph_task_id=None))
    monkeypatch.setattr(
        "npuprof.simulator.torch_front.front.importlib", SimpleNamespace(import_module=lambda _name: old)
    )
    with pytest.raises(FrontEndAbsentError, match=r"torch 1\.8\.0 lacks _current_autograd_node.*newer"):
        load_torch()
