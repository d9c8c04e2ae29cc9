"""Fixtures of the collectors' tests."""

from __future__ import annotations

from typing import Any

import pytest

from npuprof.collectors import capabilities
from npuprof.collectors.mindspore import MindSporeCollector
from tests.collectors import mindspore_double
from tests.collectors.mindspore_double import Double, MakeMindSpore
from tests.collectors.stand_in import StandIn, build, why_absent


@pytest.fixture(scope="session")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> StandIn:
    """Libraries under which the real torch_npu runs without an NPU; the test is skipped where there can be none."""
    if reason := why_absent():
        pytest.skip(reason)
    return build(tmp_path_factory.mktemp("cann"))


@pytest.fixture(autouse=True)
def _has_capabilities(monkeypatch: pytest.MonkeyPatch) -> None:
    """Provide every program that samples the host, as a machine with an NPU may have them."""
    monkeypatch.setattr(capabilities, "missing_host_tools", lambda kind: [])


@pytest.fixture
def make_mindspore(monkeypatch: pytest.MonkeyPatch) -> MakeMindSpore:
    """Make a collector over a stand-in for MindSpore, which runs on an NPU unless told otherwise."""

    def make(**how: Any) -> tuple[MindSporeCollector, Double]:
        double = Double(**{"device": "Ascend", **how})
        mindspore_double.install(monkeypatch, double)
        return MindSporeCollector(), double

    return make
