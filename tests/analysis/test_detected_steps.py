"""Steps of a run without steps: a sequence of kernels that comes again and again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npuprof
from npuprof.analysis.detected_steps import repeated_sequence
from npuprof.errors import NpuprofError
from npuprof.simulator import npu
from tests.budget import examples


def _codes(layers: int, steps: int, *, before: int = 0, layer: int = 4) -> list[int]:
    step = [0, 1, *list(range(2, 2 + layer)) * layers, 20, 21]
    return [30 + number for number in range(before)] + step * steps


@settings(max_examples=examples(50))
@given(st.integers(1, 30), st.integers(3, 12), st.integers(0, 2))
def test_a_step_of_layers_is_one_sequence(layers: int, steps: int, before: int) -> None:
    codes = np.array(_codes(layers, steps, before=before), np.int64)
    gaps = np.where(codes == 0, 100, 1)
    found = repeated_sequence(codes, gaps)
    assert found is not None
    assert found.length == 4 + 4 * layers
    assert found.begins.tolist() == [before + found.length * step for step in range(steps)]


@settings(max_examples=examples(50))
@given(st.lists(st.integers(0, 5), max_size=60), st.integers(0, 5))
def test_whatever_is_found_comes_again_and_again(codes: list[int], gap: int) -> None:
    given_codes = np.array(codes, np.int64)
    found = repeated_sequence(given_codes, np.where(given_codes == gap, 9, 0))
    if found is not None:
        sequences = {tuple(codes[begin : begin + found.length]) for begin in found.begins.tolist()}
        assert len(sequences) == 1
        assert (np.diff(found.begins) >= found.length).all()
        assert len(found.begins) * found.length >= 0.8 * len(codes)


def test_kernels_in_no_order_are_no_steps() -> None:
    codes = np.random.default_rng(0).integers(0, 8, 400)
    assert repeated_sequence(codes, np.ones(400, np.int64)) is None


def test_they_are_offered_called_detected_and_never_made_silently(tmp_path: Path) -> None:
    with npuprof.profile(collector="simulator", level=1, output=tmp_path, activities="npu") as session:
        x = npu.ones((64, 64))
        for _ in range(6):
            y = np.sin(x)
            for _ in range(3):
                y = np.exp(np.cos(y))
    run = session.result
    assert not len(run.steps)
    offer = "a sequence of 7 kernels comes 6 times: run.with_detected_steps() makes steps of it"
    assert offer in run.advice().remarks()
    detected = run.with_detected_steps()
    assert not len(run.steps)
    assert run.kernels["step"].isna().all()
    assert len(detected.steps) == 6
    assert set(detected.steps["kind"]) == {"detected sequence of 7 kernels"}
    headline = detected.advice().headline()
    assert "(mean of 4 steps" in headline  # on a busy machine with those that took longer once between them
    assert ", the detected sequence of 7 kernels" in headline
    assert detected.kernels["step"].value_counts().to_dict() == dict.fromkeys(range(6), 7)
    assert "none was recorded" in " ".join(detected.notes["message"])
    with pytest.raises(NpuprofError, match="this run has steps"):
        detected.with_detected_steps()
