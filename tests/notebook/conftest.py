"""Fixtures of the notebook's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.notebook.kernel import Kernel


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """A kernel with npuprof loaded, shared by the tests of a module."""
    with Kernel(tmp_path_factory.mktemp("kernel")) as kernel:
        kernel.run("%load_ext npuprof")
        yield kernel
