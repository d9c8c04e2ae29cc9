"""Which source takes a path, and what is said when none does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import npuprof
from npuprof.errors import SourceError


def _make(path: Path, kind: str) -> Path:
    if kind == "empty directory":
        path.mkdir()
    elif kind == "empty file":
        path.write_bytes(b"")
    elif kind == "pointer":
        path.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 870000000\n")
    elif kind == "text":
        path.write_text("hello")
    elif kind == "other directory":
        (path / "PROF_000001_20260101_EMPTY").mkdir(parents=True)
    return path


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("missing", "does not exist: check the path"),
        ("empty directory", "is an empty directory"),
        ("empty file", "is empty: the tool that wrote it was stopped"),
        ("pointer", "git lfs pull"),
        ("text", "holds nothing that npuprof can read"),
        ("other directory", "holds nothing that npuprof can read"),
    ],
)
def test_a_path_that_cannot_be_read_says_what_it_is(tmp_path: Path, kind: str, told: str) -> None:
    with pytest.raises(SourceError, match=told):
        npuprof.load(_make(tmp_path / "given", kind))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_path_without_permission_says_so(tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text("[]")
    secret.chmod(0)
    with pytest.raises(SourceError, match="check its permissions"):
        npuprof.load(secret)


def test_a_directory_around_one_run_is_that_run(samples: Path) -> None:
    around = samples / "raw" / "minimal"
    run = npuprof.load(around)
    assert len(run.kernels) == 3
    assert run.info.recording == next(around.glob("PROF_*"))
