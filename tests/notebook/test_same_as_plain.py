"""Notebooks of many kinds, each cell plain and profiled in three ways: messages, values, errors and names are the same.

The table is ``notebooks.txt``: ``===`` begins a notebook, and ``---`` a cell. One that prints "running" is interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.notebook.kernel import Kernel
from tests.notebook.outcomes import namespace, outcome

pytestmark = [pytest.mark.kernel, pytest.mark.long]

_TABLE = Path(__file__).with_name("notebooks.txt").read_text(encoding="utf-8")
_NOTEBOOKS = {
    name: cells.rstrip("\n").split("\n---\n")
    for name, _, cells in (notebook.partition("\n") for notebook in _TABLE.split("=== ")[1:])
}
_WAYS = ("by the magic", "every cell", "between start and stop")
_MODE = "__import__('npuprof').notebook.panel._live._panel.set_mode('{}')"


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str, str], list[dict[str, Any]]]]:
    """Return what each cell of a notebook does, run in one way; a kernel runs all notebooks of a way."""
    kernels: dict[str, Kernel] = {}

    @cache
    def run(way: str, notebook: str) -> list[dict[str, Any]]:
        if way not in kernels:
            kernels[way] = Kernel(tmp_path_factory.mktemp("cells"))
            kernels[way].run("%load_ext npuprof\nimport npuprof\nnpuprof.panel();")
            kernels[way].run("%%npuprof\npass")  # the folder of recordings, and the first report's widgets
        kernel = kernels[way]
        kernel.run("%reset -f\nimport npuprof")
        kernel.run("%npuprof start" if way == _WAYS[2] else "pass")
        if way == _WAYS[1]:
            kernel.evaluate(_MODE.format("every cell"))
        comms: set[str] = set()
        found = [_executed(kernel, cell, way, comms) for cell in _NOTEBOOKS[notebook]]
        if way == _WAYS[1]:
            kernel.evaluate(_MODE.format("by hand"))
        if way == _WAYS[2]:
            kernel.run("%npuprof stop")
        return found

    yield run
    for kernel in kernels.values():
        kernel.shut_down()


def _executed(kernel: Kernel, cell: str, way: str, comms: set[str]) -> dict[str, Any]:
    first = "%%npuprof\n" if way == _WAYS[0] else "" if cell.startswith("%%") else "# %%npuprof\n"
    executed = kernel.run(first + cell, on_stream=kernel.interrupt if "'running'" in cell else None)
    found = outcome(executed, comms)
    if cell.startswith("%%") or "'running'" in cell:  # it is at another line, or anywhere
        found["messages"] = [(kind, "" if kind == "error" else text) for kind, text in found["messages"]]
    return {"cell": cell, **found, "names": namespace(kernel)}


@pytest.mark.parametrize("way", _WAYS)
@pytest.mark.parametrize("notebook", _NOTEBOOKS)
def test_profiled_cells_do_the_same(
    outcomes: Callable[[str, str], list[dict[str, Any]]], notebook: str, way: str
) -> None:
    if notebook == "matplotlib" and find_spec("matplotlib") is None:
        pytest.skip("matplotlib is not installed")
    assert outcomes(way, notebook) == outcomes("plain", notebook)
