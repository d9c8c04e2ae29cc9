"""Whatever the bytes of a file of a result are, they become tables or one clear error."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import npuprof
from npuprof import tables
from npuprof.errors import NpuprofError
from tests.budget import examples
from tests.sources.mindspore.maker import trace
from tests.sources.text.kinds import KINDS
from tests.sources.text.test_every_kind import ANALYSED, INFO, MINDSPORE_TEXTS, SUMMARY
from tests.sources.trace.maker import small_trace

PIECES = [
    b",",
    b'"',
    b"\n",
    b"\r\n",
    b"\t",
    b"\0",
    b"\xff",
    b"N/A",
    b"-1",
    b"1e999",
    b"[",
    b"}",
    b"null",
    b"9" * 25,
    b"",
]


def _contents() -> dict[str, bytes]:
    files = {f"{number}.csv": f"{kind.head}\n{kind.row}\n{kind.row}\n".encode() for number, kind in enumerate(KINDS)}
    plain: dict[str, Any] = {f"{name}.json": {"step1": {"p2p": content}} for name, content in ANALYSED.items()}
    plain |= {f"info {front}.json": told for front, told in INFO.items()}
    plain |= {"summary.json": SUMMARY, "torch.json": small_trace().events, "mindspore.json": trace().events}
    files |= {name: json.dumps(content).encode() for name, content in plain.items()}
    return files | {name: text.encode() for name, text in MINDSPORE_TEXTS.items()}


CONTENTS = _contents()


@st.composite
def broken_files(draw: st.DrawFn) -> tuple[str, bytes]:
    """Return a file with a few pieces of it replaced, cut or doubled, or its archive so."""
    name = draw(st.sampled_from(sorted(CONTENTS)))
    content = bytearray(CONTENTS[name])
    if draw(st.booleans()):
        content = bytearray(gzip.compress(bytes(content), mtime=0))
    for _ in range(draw(st.integers(0, 5))):
        at = draw(st.integers(0, max(len(content) - 1, 0)))
        content[at : at + draw(st.integers(0, 40))] = draw(st.sampled_from(PIECES) | st.binary(max_size=6))
    return name, bytes(content[: draw(st.integers(0, len(content)))] if draw(st.booleans()) else content)


@pytest.mark.long
@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(broken=broken_files())
def test_any_bytes_are_tables_or_a_clear_error(tmp_path: Path, broken: tuple[str, bytes]) -> None:
    name, content = broken
    path = tmp_path / name
    path.write_bytes(content)
    try:
        run = npuprof.load(path)
    except NpuprofError:
        return
    for table in tables.NAMES:
        tables.check(table, run.tables[table])


@pytest.mark.slow
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=st.lists(broken_files(), min_size=1, max_size=4))
def test_a_result_of_any_bytes_is_tables_or_a_clear_error(tmp_path: Path, files: list[tuple[str, bytes]]) -> None:
    output = tmp_path / "run" / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True, exist_ok=True)
    names = ("trace_view.json", "kernel_details.csv", "memory_record.csv", "communication.json")
    for old in output.iterdir():
        old.unlink()
    for name, (_, content) in zip(names, files, strict=False):
        (output / name).write_bytes(content)
    try:
        run = npuprof.load(tmp_path / "run")
    except NpuprofError:
        return
    for table in tables.NAMES:
        tables.check(table, run.tables[table])
