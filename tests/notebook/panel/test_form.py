"""The panel's options follow the rules of Options and of the front ends."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from npuprof.errors import SessionError
from npuprof.notebook.arguments import interpret, typed_options
from npuprof.notebook.controller import Controller
from npuprof.notebook.magics import NpuprofMagics
from npuprof.notebook.panel.form import SWITCHES, TYPED, OptionsForm
from npuprof.options import COLLECTORS, Options
from npuprof.session.session import Session


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


def test_processes_have_a_switch_whatever_the_front_end(form: OptionsForm) -> None:
    assert "processes" in SWITCHES
    for collector in COLLECTORS:
        form.choose("collector", collector)
        assert bool(form.why_not("processes")) is (collector == "msprof")  # which has them all, from outside
    form.choose("collector", "simulator")
    form.choose("processes", True)
    assert "--processes" in form.magic()


def test_unavailable_choices_say_why(form: OptionsForm) -> None:
    assert "simulated NPU has no such hardware" in form.why_not("sys_io")
    form.choose("sys_io", True)
    assert form.chosen("sys_io") is False
    assert form.problem == ""
    form.choose("collector", "acl")
    assert form.why_not("sys_io") == ""
    assert form.chosen("sys_io") is True
    assert form.options().sys_io


def test_ruled_out_choices_say_why(form: OptionsForm) -> None:
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
    line = form.magic().removeprefix("%%npuprof")
    assert interpret(typed_options(line)).options == form.options()


def test_torchs_own_profiler_watches_no_npu() -> None:
    form = OptionsForm()
    form.choose("collector", "kineto")
    assert "no npu activity" in form.why_not_activity("npu")
    assert form.chosen("activities") == ("cpu",)
    assert "knows no NPU" in form.why_not("level")
    assert form.options().activities == ("cpu",)


def test_the_form_has_no_other_option(form: OptionsForm) -> None:
    with pytest.raises(KeyError):
        form.choose("delay", 5)


def test_typed_and_chosen_options_are_one_set(form: OptionsForm) -> None:
    form.choose("more", "--collector msprof --duration 5")
    assert form.options().duration == 5
    assert (form.collector, form.chosen("collector")) == ("msprof", "msprof")
    form.choose("more", "--collector kineto --l2")
    assert "kineto has no l2: torch's own profiler knows no NPU" in form.problem
    form.choose("more", "--level 2 --memory --activities npu")
    assert (form.chosen("level"), form.chosen("memory"), form.chosen("activities")) == (2, True, ("npu",))
    assert (form.why_not("level"), form.why_not_activity("cpu")) == (TYPED, TYPED)
    assert form.magic() == "%%npuprof --collector simulator --level 2 --memory --activities npu"
    form.choose("more", "")
    assert (form.chosen("level"), form.chosen("memory"), form.why_not("level")) == (1, False, "")


def test_absent_front_end_is_told_before_start(form: OptionsForm) -> None:
    form.choose("collector", "acl")
    assert "acl is not installed for this Python" in form.problem
    form.choose("collector", "msprof")
    assert "neither on PATH nor in ASCEND_HOME_PATH" in form.problem
    form.choose("collector", "simulator")
    assert form.problem == ""


def test_unwritable_folder_is_told_before_start(
    form: OptionsForm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    form.choose("output", str(tmp_path / "file" / "below"))
    assert "is not a directory" in form.problem
    form.choose("output", str(tmp_path / "new" / "newer"))
    assert form.problem == ""
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != tmp_path)  # root may write everywhere
    assert f"{tmp_path} cannot be written to" in form.problem
    form.choose("output", "~nobody-has-this-name/x")
    assert "home directory of a user that this system lacks" in form.problem
    assert not (tmp_path / "new").exists()


def test_options_that_no_front_end_here_has_are_known(form: OptionsForm, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = {"torch_npu", "mindspore", "tensorflow", "msprof", "acl", "kineto"}
    monkeypatch.setattr("npuprof.notebook.panel.form.why_absent", lambda name: "absent" if name in absent else "")
    assert {"sys_io", "modules", "parallel_strategy"} <= form.elsewhere
    assert not form.elsewhere & {"memory", "level", "name", "activities"}
    absent.remove("torch_npu")
    assert "modules" not in form.elsewhere
    assert "parallel_strategy" in form.elsewhere
    form.choose("collector", "mindspore")  # what is chosen is shown, also where it is absent
    assert "parallel_strategy" not in form.elsewhere


@pytest.mark.parametrize("name", ["a{b}", "{x}", "$HOME", "${HOME} {{x}}", "$$x", "it's $x", 'a"b {c!r}', "%d #"])
@pytest.mark.parametrize("typed", [False, True])
def test_the_line_is_exact_for_names_that_ipython_would_format(form: OptionsForm, name: str, typed: bool) -> None:
    shell = InteractiveShell(config=Config({"HistoryManager": {"enabled": False}}))
    began: list[Options] = []

    def make(options: Options, title: str) -> Session:
        began.append(options)
        raise SessionError("enough")

    magics = NpuprofMagics(shell, Controller(lambda session: None, make))
    magics.install()
    try:
        shell.user_ns.update(x="no", b=1, c=2, HOME="no")
        form.choose("more" if typed else "name", f"--name {shlex.quote(name)}" if typed else name)
        shell.run_cell(f"{form.magic()}\n1")
    finally:
        magics.uninstall()
    assert [options.name for options in began] == [name]
    assert began[0] == form.options()
