"""The package is quick to import, and no module of it imports itself through others."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Collection, Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from npuprof import simulator

_ROOT = Path(simulator.__file__).parent


@pytest.mark.slow
def test_neither_numpy_nor_pandas_is_imported() -> None:
    code = "import sys, npuprof.simulator as s; s.current(); print(sorted({'numpy', 'pandas'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def _imported(path: Path, modules: Collection[str]) -> Iterator[str]:
    """Yield the modules that a file imports: at its top, inside functions, for types only, and by a text."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            named = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name if name in modules else str(node.module) for name in named)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Constant):
            yield str(node.value)


@pytest.mark.slow
def test_no_module_imports_itself_through_others() -> None:
    files = {}
    for path in _ROOT.rglob("*.py"):
        parts = path.relative_to(_ROOT).with_suffix("").parts
        files[".".join((simulator.__name__, *parts)).removesuffix(".__init__")] = path
    graph = {name: set(_imported(path, files)) & set(files) for name, path in files.items()}
    assert sum(map(len, graph.values())) > len(files)
    TopologicalSorter(graph).prepare()  # raises CycleError, which holds the modules of a circle
