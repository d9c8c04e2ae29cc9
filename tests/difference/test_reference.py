"""The page of comparisons: its fixture works, and it lists the parts and the reasons that there are."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npuprof.analysis.accounting import PARTS
from npuprof.difference.reasons import OF_PART
from npuprof.profiles.profile import Profile
from tests.difference.runs import noisy, run

PAGE = (Path(__file__).parents[2] / "notebooks/reference/compare.md").read_text("utf-8")


@pytest.fixture
def no_slower() -> Callable[[Profile, Path], None]:
    (code,) = re.findall(r"```python\n(import npuprof.*?)```", PAGE, re.DOTALL)
    space: dict[str, Any] = {}
    exec(code, space)
    made: Callable[[Profile, Path], None] = space["no_slower"].__wrapped__(None)
    return made


@pytest.mark.slow
def test_the_fixture_fails_with_the_rows_that_got_slower(no_slower: Any, tmp_path: Path) -> None:
    random = np.random.default_rng(8)
    model = [("MatMul", "8,8", 2_000_000), ("Add", "8", 500_000)]
    baseline = run(noisy(model, 8, random)).save(tmp_path / "baseline")
    no_slower(run(noisy(model, 8, random)), baseline)
    with pytest.raises(pytest.fail.Exception, match=r"MatMul 8,8 +\d+ +slower"):
        no_slower(run(noisy(model, 8, random, slower=("MatMul", 1.2))), baseline)


def test_the_parts_and_the_reasons_are_listed() -> None:
    rows = PAGE.partition("## Rows")[2].partition("## Noise")[0]
    listed = re.findall(r"^\| (`.*?) \|", rows, re.MULTILINE)
    assert re.findall(r"`(\w+)`", " ".join(listed)) == [*PARTS[: PARTS.index("copy") + 1], "idle"]
    reasons = set(re.findall(r"`(\w+)`", rows.partition("`why`")[2].partition("`place`")[0]))
    of_kernels = {"new", "gone", "shape", "count", "dtype", "frequency", "slower", "faster"}
    assert reasons == of_kernels | set(OF_PART.values())


@pytest.mark.slow
def test_a_kernel_that_replaces_slower_ones_passes(no_slower: Any, tmp_path: Path) -> None:
    random = np.random.default_rng(12)
    ends = [("MatMul", "8,8", 400_000), ("Softmax", "8", 200_000)]
    chain = [ends[0], ("Mul", "8", 40_000), ("Add", "8", 50_000), ("Cast", "8", 30_000), ends[1]]
    run(noisy(chain, 8, random)).save(tmp_path / "baseline")
    no_slower(run(noisy([ends[0], ("FusedNorm", "8", 60_000), ends[1]], 8, random)), tmp_path / "baseline")
