"""The panel's options follow the rules of Options and of the front ends."""

from __future__ import annotations

import pytest

from npuprof.notebook.arguments import interpret, typed_options
from npuprof.notebook.panel.form import SWITCHES, OptionsForm
from npuprof.options import COLLECTORS, Options


@pytest.fixture
def form() -> OptionsForm:
    form = OptionsForm()
    form.choose("collector", "simulator")
    return form


@pytest.mark.slow
def test_at_first_everything_is_as_options_has_it() -> None:
    form = OptionsForm()
    assert form.problem == ""
    assert form.options() == Options()
    assert form.magic() == "%%npuprof"


def test_every_switch_is_an_option() -> None:
    assert set(SWITCHES) <= set(Options().to_dict())


def test_what_the_front_end_lacks_cannot_be_chosen_and_says_why(form: OptionsForm) -> None:
    assert "simulated NPU has no such hardware" in form.why_not("sys_io")
    form.choose("sys_io", True)
    assert form.chosen("sys_io") is False
    assert form.problem == ""
    form.choose("collector", "acl")
    assert form.why_not("sys_io") == ""
    assert form.chosen("sys_io") is True
    assert form.options().sys_io


def test_what_the_level_rules_out_cannot_be_chosen_and_says_why(form: OptionsForm) -> None:
    form.choose("aic_metrics", "Memory")
    form.choose("level", 0)
    assert "needs level 1 or 2" in form.why_not("aic_metrics")
    assert form.options().aic_metrics == "none"
    form.choose("level", 2)
    assert form.options().aic_metrics == "Memory"


def test_what_only_the_device_collects_goes_with_npu(form: OptionsForm) -> None:
    form.choose("memory", True)
    form.choose("activities", ("cpu",))
    assert "collected by the device" in form.why_not("memory")
    assert not form.options().memory
    form.choose("activities", ("npu",))
    assert "recorded on the host" in form.why_not("stacks")
    assert form.options().memory


def test_a_refused_choice_is_a_message(form: OptionsForm) -> None:
    form.choose("activities", ())
    assert "choose at least one" in form.problem
    form.choose("activities", ("cpu", "npu"))
    form.choose("level", "none")
    form.choose("marks", False)
    assert "turn marks on" in form.problem
    form.choose("marks", True)
    form.choose("name", "a/b")
    assert "without slashes" in form.problem


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("--bogus", "unknown argument --bogus: the options are"),
        ("--levl 1", "did you mean --level?"),
        ("--memory-freq 10", "add memory"),
        ("--memory-freq ten", "invalid int value"),
        ("--delay 5", "only the msprof tool"),
        ("--no-report", "does not apply here"),
        ("'", "cannot be read"),
    ],
)
def test_more_options_are_typed_and_refused_with_the_reason(form: OptionsForm, typed: str, message: str) -> None:
    form.choose("more", typed)
    assert message in form.problem


def test_more_options_are_taken(form: OptionsForm) -> None:
    form.choose("memory", True)
    form.choose("more", "--memory-freq 10 --host-sys cpu,mem")
    assert (form.options().memory_freq, form.options().host_sys) == (10, ("cpu", "mem"))


@pytest.mark.slow
@pytest.mark.parametrize("collector", COLLECTORS)
def test_the_line_asks_for_the_same(collector: str) -> None:
    form = OptionsForm()
    form.choose("collector", collector)
    form.choose("name", "first run")
    for name in SWITCHES:
        form.choose(name, not form.chosen(name))
    if collector == "kineto":
        form.choose("activities", ("cpu", "gpu"))
    assert form.problem == ""
    line = form.magic().removeprefix("%%npuprof")
    assert interpret(typed_options(line)).options == form.options()


def test_torchs_own_profiler_watches_no_npu() -> None:
    form = OptionsForm()
    form.choose("collector", "kineto")
    assert "no npu activity" in form.why_not_activity("npu")
    assert form.chosen("activities") == ("cpu",)
    assert "knows no NPU" in form.why_not("level")
    assert form.problem == ""


def test_the_form_has_no_other_option(form: OptionsForm) -> None:
    with pytest.raises(KeyError):
        form.choose("delay", 5)
