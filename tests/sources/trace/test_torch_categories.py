"""Categories of torch's traces: each kind of slice in the spellings of all years."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuprof.sources.trace.torch_categories import is_of_torch, kind_of_category, task_type

_KINDS = {
    "operator": ("cpu_op", "Operator"),
    "annotation": ("user_annotation",),
    "device_annotation": ("gpu_user_annotation",),
    "python": ("python_function", "Python"),
    "call": ("cuda_runtime", "cuda_driver", "Runtime", "xpu_runtime", "privateuse1_driver"),
    "task": ("kernel", "Kernel", "gpu_memcpy", "Memcpy", "gpu_memset", "Memset", "cuda_sync", "collective_comm"),
    "memory": ("cpu_instant_event",),
    "span": ("Trace",),
}
_SPELLINGS = [(category, kind) for kind, categories in _KINDS.items() for category in categories]


@given(st.sampled_from(_SPELLINGS), st.data())
def test_a_category_is_known_in_any_case(spelling: tuple[str, str], data: st.DataObject) -> None:
    category, kind = spelling
    upper = data.draw(st.lists(st.booleans(), min_size=len(category), max_size=len(category)))
    cased = "".join(letter.upper() if up else letter.lower() for letter, up in zip(category, upper, strict=True))
    assert kind_of_category(cased) == kind
    assert is_of_torch(cased) == is_of_torch(category)


@pytest.mark.parametrize("category", ["", None, "HostToDevice", "enqueue", "Iteration Time", "Reduce"])
def test_categories_of_other_timelines_are_not_torch_s(category: str | None) -> None:
    assert kind_of_category(category) is None
    assert not is_of_torch(category)


def test_categories_that_two_front_ends_write_tell_neither() -> None:
    assert not any(map(is_of_torch, ("cpu_op", "user_annotation", "python_function")))


@pytest.mark.parametrize(
    ("categories", "kind"),
    [
        ("kernel Kernel Concurrent_Kernel", "kernel"),
        ("gpu_memcpy Memcpy mlu_memcpy GCU_MEMCPY", "gpu_memcpy"),
        ("gpu_memset Memset", "gpu_memset"),
        ("cuda_sync", "cuda_sync"),
    ],
)
def test_a_task_has_one_type_in_all_years(categories: str, kind: str) -> None:
    assert {task_type(category) for category in categories.split()} == {kind}
