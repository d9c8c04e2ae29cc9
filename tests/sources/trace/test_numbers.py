"""A number of any size in any field of a timeline's events ends in a note, never in an error of Python's."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import npuprof
from npuprof.errors import NpuprofError
from tests.budget import examples
from tests.sources.kineto.traces import KinetoTrace
from tests.sources.mutations import load, lost, warned_more
from tests.sources.trace.maker import small_trace

_FITS = st.integers(-(1 << 63) + 1, (1 << 63) - 1)
_BEYOND = st.integers(1 << 63, 10**40) | st.integers(-(10**40), -(1 << 63)) | st.floats(1e19, 1e308)
_NUMBERS = _FITS | _BEYOND | st.floats() | st.integers(1, 5000).map(lambda digits: "9" * digits)


def _torch() -> KinetoTrace:
    trace = KinetoTrace()
    trace.slice("user_annotation", "ProfilerStep#3", 0, 90, External_id=1)
    trace.slice("user_annotation", "forward", 5, 60, External_id=2)
    trace.operator("aten::mm", 10, 40, 3, Sequence_number=4, Fwd_thread_id=1)
    trace.slice("python_function", "train.py(9): main", 1, 80, Python_id=1)
    trace.slice("python_function", "torch/nn(7): call", 2, 70, Python_id=2, Python_parent_id=1)
    trace.slice("cuda_runtime", "cudaLaunchKernel", 20, 5, External_id=3, correlation=8)
    sizes = {"grid": [2, 1, 1], "block": [32, 1, 1], "registers_per_thread": 8, "est._achieved_occupancy_%": 50}
    trace.on_gpu("kernel", "gemm", 60, 10, 0, External_id=3, correlation=8, stream=7, **sizes)
    collective = {"Collective_name": "all_reduce", "In_msg_nelems": 64, "Group_size": 2}
    trace.on_gpu("kernel", "ncclKernel", 75, 10, 0, External_id=3, correlation=9, stream=9, **collective)
    trace.memory(12, 64, 4096, 64)
    trace.memory(14, -64, 4096, 0)
    return trace


def _plain(form: str) -> Any:
    return json.loads(_torch().text()) if form == "torch" else {"traceEvents": small_trace().events}


def _numbers(plain: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Iterate over the places of numbers, and of texts that are one."""
    children = plain.items() if isinstance(plain, dict) else enumerate(plain) if isinstance(plain, list) else ()
    for key, value in children:
        if isinstance(value, int | float) or (isinstance(value, str) and value.replace(".", "").isdecimal()):
            yield (*place, key)
        yield from _numbers(value, (*place, key))


def _with(plain: Any, place: tuple[Any, ...], value: Any) -> str:
    changed = around = copy.deepcopy(plain)
    for key in place[:-1]:
        around = around[key]
    around[place[-1]] = "its value"
    return json.dumps(changed).replace('"its value"', value if isinstance(value, str) else json.dumps(value))


_PLAIN = {form: _plain(form) for form in ("torch", "vendor")}
_PLACES = [(form, place) for form, plain in _PLAIN.items() for place in _numbers(plain)]


@pytest.mark.slow
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(_PLACES), _NUMBERS)
def test_a_number_of_any_size_is_read_or_reported(
    tmp_path: Path, where: tuple[str, tuple[Any, ...]], value: Any
) -> None:
    form, place = where
    path = tmp_path / "trace_view.json"
    path.write_text(_with(_PLAIN[form], place, value))
    with suppress(NpuprofError):
        npuprof.load(path)


@pytest.mark.long
@pytest.mark.parametrize("form", _PLAIN)
def test_a_number_that_no_field_can_hold_is_reported(tmp_path: Path, form: str) -> None:
    values = cycle([1 << 63, -(1 << 63), 10**400])
    path = tmp_path / "trace_view.json"
    path.write_text(json.dumps(_PLAIN[form]))
    whole = load(path)
    assert whole is not None
    untold, seen = [], set()
    for place in _numbers(_PLAIN[form]):
        event = _PLAIN[form]["traceEvents"][place[1]] if place[0] == "traceEvents" else {}
        kind = (event.get("ph"), event.get("cat"), *place[2:])
        if kind in seen or place[-1] == "pid":
            continue  # the same field of the same kind of event; a process may have any number
        seen.add(kind)
        path.write_text(_with(_PLAIN[form], place, value := next(values)))
        left = load(path)
        if left is not None and not warned_more(whole, left) and (loss := lost(whole, left)):
            untold.append((place, value, loss))
    assert not untold


@pytest.mark.slow
@pytest.mark.parametrize("digits", [18, 19, 5000])
@pytest.mark.parametrize("form", _PLAIN)
def test_the_number_of_a_step_may_have_any_number_of_digits(tmp_path: Path, form: str, digits: int) -> None:
    path = tmp_path / "trace_view.json"
    text = json.dumps(_PLAIN[form])
    name = "ProfilerStep#3" if form == "torch" else "ProfilerStep#7"
    assert name in text
    path.write_text(text.replace(name, "ProfilerStep#" + "9" * digits))
    run = npuprof.load(path)
    steps = run.steps["step"].tolist()
    assert steps == ([int("9" * digits)] if digits == 18 else [])
    told = run.notes["message"].str.contains("a step has a number that is too large")
    assert bool(told.any()) is (digits > 18)
