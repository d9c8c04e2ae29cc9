"""Fixtures of the tests of dynamic profiling."""

from __future__ import annotations

from tests.collectors.conftest import stand_in

__all__ = ["stand_in"]
