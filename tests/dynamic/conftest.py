"""Fixtures of the tests of dynamic profiling."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.collectors.conftest import stand_in

__all__ = ["stand_in"]


@pytest.fixture(autouse=True)
def files_of_this_user_alone() -> Iterator[None]:
    """Set a umask with which nobody else can write to a test's files."""
    before = os.umask(0o022)
    yield
    os.umask(before)
