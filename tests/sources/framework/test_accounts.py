"""The account of a framework's files: each record is in a table, used for others, or left out by a note."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import npuprof
from npuprof.sources.detect import detect
from npuprof.sources.torch_npu import raw_files
from tests.sources.framework.writer import small
from tests.sources.test_ledger import unaccounted


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return small().write(tmp_path / "host_1_ascend_pt")


def _files(run: Path) -> list[Path]:
    return sorted((run / "FRAMEWORK").iterdir())


def _unaccounted(run: Path) -> list[str]:
    decoded = raw_files.read(run)
    decoded.settle()
    return unaccounted(decoded)


def test_every_file_is_an_input(run: Path) -> None:
    assert detect(run).results[0].source.name == "torch_npu.unparsed"
    ledger = npuprof.load(run).ledger.set_index("input")
    assert {path.name for path in _files(run)} <= set(ledger.index)
    assert (ledger["rows"] == ledger[["in_tables", "used", "left_out"]].sum(axis=1)).all()
    assert ledger.loc["torch.op_range", "in_tables"] == ledger.loc["torch.op_range", "rows"] > 0
    assert not _unaccounted(run)


@pytest.mark.slow
def test_damaged_records_are_accounted_for(run: Path) -> None:
    chance = random.Random(11)
    gaps = {}
    for path in _files(run):
        whole = path.read_bytes()
        for turn in range(8):
            content = bytearray(whole)
            for _ in range(4):
                content[chance.randrange(len(content))] = chance.randrange(256)
            path.write_bytes(content[: chance.randrange(len(content)) if turn % 4 == 3 else None])
            if wrong := _unaccounted(run):
                gaps[path.name, turn] = wrong
        path.write_bytes(whole)
    assert not gaps


@pytest.mark.slow
def test_an_emptied_file_is_reported(run: Path) -> None:
    for path in _files(run):
        whole = path.read_bytes()
        path.write_bytes(b"")
        notes = npuprof.load(run).notes
        told = notes[notes["source"] == path.name]
        assert "the file is empty: its records are missing" in told["message"].tolist(), path.name
        assert "warning" in told["severity"].tolist()
        path.write_bytes(whole)
    assert not npuprof.load(run).notes["message"].str.contains("is empty").any()
