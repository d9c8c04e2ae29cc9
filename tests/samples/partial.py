"""The folder of samples as tests see it, which may lack some of its parts."""

from __future__ import annotations

import functools
import os
from pathlib import Path, PosixPath

import pytest

from tests.samples import FOLDER, read_manifest


class PartialFolder(PosixPath):
    """The folder of samples, or a folder in it that has several parts: ``/`` skips the test where a part is absent."""

    def __truediv__(self, name: str | os.PathLike[str]) -> Path:  # type: ignore[override]  # plain inside a part
        """Return the path; skip the test if it is, or is inside, a part of the samples that is not there."""
        place = Path(self, name)
        if not place.is_relative_to(FOLDER):
            return place
        inside = place.relative_to(FOLDER)
        for part in _parts():
            if inside.is_relative_to(part):
                if not (FOLDER / part).exists():
                    pytest.skip(f"{part} is not among the samples in {FOLDER}")
                return place
        return type(self)(place)


@functools.cache
def _parts() -> list[str]:
    return read_manifest().parts
