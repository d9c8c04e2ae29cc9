"""Ten questions with known answers, and the session on the page."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="mcp is not installed")

from mcp import StdioServerParameters

from tests.assistant import session
from tests.benchmarks import bench_assistant as bench

pytestmark = pytest.mark.long


def _wrong(folder: Path, questions: list[bench.Question]) -> list[str]:
    """Return the questions that were answered wrong, or with more calls and characters than allowed."""
    command = StdioServerParameters(command=sys.executable, args=["-m", "npuprof", "mcp", str(folder)])
    outcomes = bench.ask(command, questions)
    return [each.question.name for each in outcomes if not (each.is_right and each.is_within)]


def test_ten_questions_about_made_runs(tmp_path: Path) -> None:
    bench.make(tmp_path)
    questions = bench.generated()
    assert len(questions) == 10
    assert _wrong(tmp_path, questions) == []


def test_ten_questions_about_published_results(samples: Path) -> None:
    questions = bench.published(samples / "torch_npu")
    assert _wrong(samples / "torch_npu", questions) == []


def test_page_has_the_session() -> None:
    assert session.written() == session.session()
