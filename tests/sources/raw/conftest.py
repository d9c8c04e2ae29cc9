"""Raw directories to read: the samples, and copies of them that a test may damage."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

for _name in ("csv", "database", "timeline"):
    pytest.register_assert_rewrite(f"{__package__}.vendor_{_name}")


def raw_sample(samples: Path, name: str) -> Path:
    """The PROF_* directory of a raw sample."""
    return next((samples / "raw" / name).glob("PROF_*"))


def writable_copy(source: Path, target: Path) -> Path:
    """Copy the files of a sample; its own are read-only."""
    for file in source.rglob("*"):
        if file.is_file():
            place = target / file.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, place)
    return target


@pytest.fixture
def minimal(samples: Path, tmp_path: Path) -> Path:
    """A copy of the raw directory of three launches."""
    return writable_copy(raw_sample(samples, "minimal"), tmp_path / "PROF_minimal")
