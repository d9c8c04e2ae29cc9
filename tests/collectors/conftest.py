"""Fixtures of the collectors' tests."""

from __future__ import annotations

import pytest

from tests.collectors.stand_in import StandIn, build, why_absent


@pytest.fixture(scope="session")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> StandIn:
    """Libraries under which the real torch_npu runs without an NPU; the test is skipped where there can be none."""
    if reason := why_absent():
        pytest.skip(reason)
    return build(tmp_path_factory.mktemp("cann"))
