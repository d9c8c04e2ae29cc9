"""A directory of temporary files for each test, which must be empty again after it."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def place(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory of temporary files, which must be empty again after each test."""
    folder = tmp_path_factory.mktemp("place")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    gc.collect()
    assert not list(folder.iterdir())
