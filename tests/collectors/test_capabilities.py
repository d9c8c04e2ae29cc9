"""Which options each front end refuses, and in which words."""

from __future__ import annotations

import pytest

from npuprof.collectors import capabilities
from npuprof.errors import OptionsError
from npuprof.options import SPECIFICATION, Options, has_value, lacks
from npuprof.options.specification import FRONT_ENDS
from tests import vendor_settings
from tests.vendor_settings import ASKED


def test_every_option_that_a_front_end_lacks_is_asked_for_here() -> None:
    assert {name for name in SPECIFICATION if any(lacks(front_end, name) for front_end in FRONT_ENDS)} == set(ASKED), (
        "ASKED in tests/vendor_settings.py has each option that a front end lacks, with a value to ask for"
    )


def test_the_defaults_suit_every_front_end() -> None:
    for collector in FRONT_ENDS:
        capabilities.check(collector, Options(collector=collector))


@pytest.mark.parametrize("collector", FRONT_ENDS)
@pytest.mark.parametrize("option", ASKED)
def test_lacking_options_are_refused_with_reason(collector: str, option: str) -> None:
    activities = ("cpu", "npu") if has_value(collector, "activities", "npu") else ("cpu",)
    if activities == ("cpu",) and option not in ("level", "modules", "flops", "gc_detect_threshold", "record_op_args"):
        if lacks(collector, option) == "":
            return
        with pytest.raises(OptionsError):  # Options itself may refuse, for want of a device
            capabilities.check(collector, Options(activities=activities, collector=collector, **ASKED[option]))
        return
    options = Options(activities=activities, collector=collector, **ASKED[option])
    needed_too = {name for name in ASKED[option] if name != option and lacks(collector, name)}
    if reason := lacks(collector, option):
        with pytest.raises(OptionsError, match=f"{collector} has no") as caught:
            capabilities.check(collector, options)
        assert needed_too or reason in str(caught.value)
    elif not needed_too:
        capabilities.check(collector, options)


def test_the_front_ends_that_have_an_option_are_named() -> None:
    with pytest.raises(OptionsError, match=r"--collector torch_npu, kineto"):
        capabilities.check("acl", Options(modules=True))


def test_flops_are_refused_where_nobody_estimates_them() -> None:
    for collector in set(FRONT_ENDS) - {"kineto", "torch_npu"}:
        with pytest.raises(OptionsError, match=r"has no flops: .*--collector torch_npu, kineto\)"):
            capabilities.check(collector, Options(flops=True, collector=collector))
    for collector in ("kineto", "torch_npu"):
        capabilities.check(collector, Options(flops=True, collector=collector))


@pytest.mark.parametrize(("collector", "activity"), [("kineto", "npu"), ("acl", "gpu"), ("torch_npu", "gpu")])
def test_an_activity_that_a_front_end_lacks_is_refused(collector: str, activity: str) -> None:
    with pytest.raises(OptionsError, match=f"{collector} has no {activity} among activities"):
        capabilities.check(collector, Options(activities=("cpu", activity), aic_metrics="none"))


def test_events_of_ones_own_are_counted_by_two_front_ends_only() -> None:
    options = Options(aic_metrics="Custom:0x8,0xa")
    capabilities.check("msprof", options)
    capabilities.check("tensorflow", options)
    with pytest.raises(OptionsError, match="tensorflow, msprof"):
        capabilities.check("acl", options)


@pytest.mark.parametrize("collector", ["mindspore", "tensorflow", "msprof"])
def test_numa_samples_are_refused_where_the_front_end_takes_none(collector: str) -> None:
    with pytest.raises(OptionsError, match=f"{collector} has no numa among host_sys.*--collector acl, torch_npu"):
        capabilities.check(collector, Options(host_sys=("cpu", "numa"), collector=collector))


@pytest.mark.slow
@pytest.mark.parametrize("collector", ["acl", "torch_npu", "mindspore", "msprof", "tensorflow"])
@pytest.mark.parametrize("option", sorted(set(ASKED) - {"level"}))
def test_what_a_front_end_has_is_handed_on(collector: str, option: str) -> None:
    asked = ASKED[option] | {"collector": collector}
    refused = (collector, option) == ("msprof", "hccl")  # at level 0, and at the others it is there anyway
    if not refused and not any(lacks(collector, name) for name in ASKED[option]):
        without = {name: value for name, value in asked.items() if name != option}
        assert vendor_settings.of(collector, Options(**asked)) != vendor_settings.of(collector, Options(**without))
