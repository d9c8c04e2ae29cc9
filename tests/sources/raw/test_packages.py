"""The packages of the raw decoder depend on each other in one order only, and on none that writes raw data."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import npuprof.simulator
from npuprof import sources
from npuprof.sources import raw
from tests.sources.framework import writer
from tests.sources.raw import writers

_DRAWN = re.findall(r"^    (\w+)/ ", raw.__doc__ or "", re.MULTILINE)
_RAW = Path(raw.__file__).parent


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def _names(*paths: Path) -> set[str]:
    return {name for path in paths for name in _imported(path)}


def test_every_package_is_drawn() -> None:
    assert sorted(_DRAWN) == sorted(path.parent.name for path in _RAW.glob("*/__init__.py"))


@pytest.mark.slow
@pytest.mark.parametrize("package", _DRAWN)
def test_packages_import_as_drawn(package: str) -> None:
    below = _DRAWN[_DRAWN.index(package) + 1 :]
    modules = sorted((_RAW / package).glob("*.py"))
    assert len(modules) > 1
    found = {name for name in _names(*modules) if name.startswith(f"{raw.__name__}.")}
    assert not [name for name in found if name.split(".")[3] in below]
    assert not {name for name in found if len(name.split(".")) < 5 and name.split(".")[3] not in _DRAWN}


@pytest.mark.slow
def test_writer_and_decoder_share_no_definitions() -> None:
    simulator = Path(npuprof.simulator.__file__).parent
    written = _names(*simulator.rglob("*.py"), *Path(writers.__file__).parent.glob("*.py"), Path(writer.__file__))
    decoded = _names(*Path(sources.__file__).parent.rglob("*.py"))
    assert any(name.startswith("npuprof.simulator.") for name in written)
    assert any(name.startswith("npuprof.sources.raw.records.") for name in decoded)
    assert not [name for name in written if name.startswith("npuprof.sources")]
    assert not [name for name in decoded if name.startswith("npuprof.simulator")]
