"""The README's example does what it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.notebook.kernel import Kernel

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

_README = Path(__file__).parents[2] / "README.md"


def test_the_example_runs_as_it_is_written(kernel: Kernel) -> None:
    setup, cell, *_ = re.findall(r"```python\n(.*?)```", _README.read_text(encoding="utf-8"), re.DOTALL)
    assert kernel.run(setup).status == "ok"
    executed = kernel.run(cell)
    assert executed.status == "ok"
    assert executed.value == "(512, 1024)"
    assert executed.has_report
    assert kernel.evaluate("len(npuprof.last().kernels), set(npuprof.last().marks['message'])") == "(100, {'forward'})"
