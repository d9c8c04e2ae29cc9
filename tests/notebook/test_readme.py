"""The README's example does what it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.notebook.kernel import Kernel

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

_README = Path(__file__).parents[2] / "README.md"


def test_the_example_runs_as_it_is_written(kernel: Kernel) -> None:
    setup, first, second, asked, *_ = re.findall(r"```python\n(.*?)```", _README.read_text(encoding="utf-8"), re.DOTALL)
    assert kernel.run(setup).status == "ok"
    for cell in (first, second):
        executed = kernel.run(cell)
        assert executed.status == "ok"
        assert executed.has_report
        assert kernel.evaluate("len(npuprof.last().steps)") == "50"
    assert " a step, was " in executed.displays[0]["text/plain"]
    assert kernel.evaluate("npuprof.history()['changed_lines'].iloc[-1]") == "'4, 5'"
    for line in asked.splitlines():
        assert kernel.run(line).status == "ok", line
