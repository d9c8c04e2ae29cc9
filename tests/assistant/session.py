"""The worked session on the page of the assistant: ``python -m tests.assistant.session`` writes it anew."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

from tests.assistant.client import ask
from tests.benchmarks.bench_assistant import make

PAGE = Path(__file__).parents[2] / "notebooks" / "reference" / "assistant.md"
_SESSION: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("Which runs are here?", "list_runs", {}),
    ("What changed from `before` to `after`?", "compare", {"a": "after", "b": "before"}),
    ("Which kernels take the time?", "top", {"path": "after", "by": "op_type"}),
    ("Is a rank of `slow_job` slow, and who waits for it?", "ranks", {"path": "slow_job"}),
    ("What would it gain?", "advise", {"path": "slow_job", "limit": 1_500}),
    (
        "How long is each step of `after`?",
        "sql",
        {"path": "after", "query": "select step, duration_ns from steps order by step limit 3"},
    ),
    ("And outside of the folder?", "describe", {"path": "/etc"}),
)
_PLACE = re.compile(r"(?<=<!-- session -->\n).*(?=<!-- end of the session -->)", re.DOTALL)


def session() -> str:
    """Return the questions, the calls and the answers about generated runs."""
    with tempfile.TemporaryDirectory() as name:
        make(Path(name))
        answers = ask(Path(name), *((tool, arguments) for _, tool, arguments in _SESSION))[1:]
    parts = []
    for (question, tool, arguments), answer in zip(_SESSION, answers, strict=True):
        text = "\n".join(line.rstrip() for line in answer.text.splitlines())
        parts.append(f"\n{question}\n\n````text\n{tool} {json.dumps(arguments)}\n\n{text}\n````\n")
    return "".join([*parts, "\n"])


def written() -> str:
    """Return the session that the page has."""
    found = _PLACE.search(PAGE.read_text("utf-8"))
    assert found is not None
    return found[0]


if __name__ == "__main__":
    new = session()
    PAGE.write_text(_PLACE.sub(lambda _: new, PAGE.read_text("utf-8")), "utf-8")
