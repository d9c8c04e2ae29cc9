"""The commands as a user types them."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import npuprof
from npuprof import cli
from npuprof.profiles.profile import Profile
from npuprof.simulator import synthesise
from npuprof.sources.base import Decoded
from npuprof.tables.info import Info
from npuprof.words.commands import own_command
from tests import factories, pace
from tests.analysis.test_accounting import table
from tests.difference.runs import BASE, profile, run


@pytest.mark.slow
def test_open_prints_the_summary_and_writes_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = Profile(Decoded(factories.profile(5), factories.info())).save(tmp_path / "saved")
    assert cli.main(["open", str(saved), "--html", str(tmp_path / "page.html")]) == 0
    shown = capsys.readouterr().out
    assert "training step" in shown
    assert str(tmp_path / "page.html") in shown
    assert (tmp_path / "page.html").stat().st_size > 100_000


@pytest.mark.slow
def test_open_reads_what_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(synthesise(tmp_path, launches=400))
    whole = npuprof.load(path)
    start_ns, end_ns = whole.kernels["start_ns"].iloc[[100, 300]]
    assert whole.info.started_ns is not None
    since = f"+{start_ns - whole.info.started_ns}ns"
    assert cli.main(["open", path, "--start", since, "--end", str(end_ns), "--source", "raw"]) == 0
    part = npuprof.load(path, start=start_ns, end=end_ns)
    assert capsys.readouterr().out == f"{part}\n"
    assert 0 < len(part.kernels) < len(whole.kernels)


@pytest.mark.slow
def test_open_reads_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = str(Profile(Decoded(factories.profile(5), factories.info())).save(tmp_path / "saved"))
    number = int(npuprof.load(saved).steps["step"].iloc[0])
    assert cli.main(["open", saved, "--steps", str(number)]) == 0
    assert capsys.readouterr().out == f"{npuprof.load(saved, steps=number)}\n"
    assert cli.main(["open", saved, "--steps", "3;4"]) == 1
    assert capsys.readouterr().err.startswith("npuprof: --steps is '3;4'; give numbers or ranges")


@pytest.mark.slow
def test_open_of_many_runs_ends_with_the_command_for_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank in (0, 1):
        Profile(Decoded(factories.profile(3), factories.info(rank=rank))).save(tmp_path / "the job" / f"rank_{rank}")
    assert cli.main(["open", str(tmp_path / "the job")]) == 0
    *_, of_all, _, last = capsys.readouterr().out.splitlines()
    assert of_all.startswith(f"What makes a step of all ranks slow: {own_command('advise')} ")
    assert cli.main(shlex.split(of_all)[-2:]) == 0
    assert "µs a step" in capsys.readouterr().out
    assert last.startswith(f"One of them: {own_command('open')} ")
    assert cli.main(shlex.split(last)[-2:]) == 0
    assert "rank 0" in capsys.readouterr().out


@pytest.mark.slow
def test_unopenable_path_is_one_line_and_status_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["open", str(tmp_path / "missing")]) == 1
    assert capsys.readouterr().err.startswith(f"npuprof: {tmp_path / 'missing'} does not exist")


@pytest.mark.slow
def test_advise_is_a_gate_for_scripts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = str(Profile(Decoded(factories.profile(60), factories.info())).save(tmp_path / "saved"))
    advice = Profile(Decoded(factories.profile(60), factories.info())).advice()
    worst = 100 * max(finding.gain_hi_ns for finding in advice.fired) / advice.step_ns
    assert 1 < worst < 99
    assert cli.main(["advise", saved]) == 0
    assert capsys.readouterr().out == f"{advice}\n"
    assert cli.main(["advise", saved, "--json", "--fail-on", f"{worst + 1}%"]) == 0
    assert json.loads(capsys.readouterr().out) == advice.to_dict()
    assert cli.main(["advise", saved, "--fail-on", str(worst - 1)]) == 3
    assert cli.main(["advise", str(tmp_path / "missing"), "--fail-on", "5%"]) == 1
    step = f"{advice.step_ns} ns"
    conditions = {f"step >= {step}": 3, f"step > {step}": 0, f"step = {step} and idle <= 100%": 3, "stop > 1ms": 1}
    assert {text: cli.main(["advise", saved, "--fail-on", text]) for text in conditions} == conditions
    kernels = table("kernels", [(0, 70), (100, 70), (200, 70)])
    idle = factories.all_tables(steps=table("steps", [(0, 100), (100, 100), (200, 100)]), kernels=kernels)
    without_host = str(Profile(Decoded(idle, factories.info())).save(tmp_path / "idle"))
    capsys.readouterr()
    assert [cli.main(["advise", without_host, "--fail-on", limit]) for limit in ("31%", "30%")] == [0, 4]
    assert "cannot tell: no finding may gain 30 %, but 30.0 % of a step is idle" in capsys.readouterr().err
    (tmp_path / "op_statistic.csv").write_text("OP Type,Core Type,Count\nMatMul,AI_CORE,1\n")
    sums = ["advise", str(tmp_path / "op_statistic.csv")]
    assert (cli.main(sums), cli.main([*sums, "--fail-on", "5%"])) == (0, 1)
    assert capsys.readouterr().err.endswith("has no step and no device time, so --fail-on has nothing to check\n")
    for wrong in ("much", "nan", "-1", "101%"):
        with pytest.raises(SystemExit, match="2"):
            cli.main(["advise", saved, "--fail-on", wrong])
        assert f"{wrong!r} is not a percentage" in capsys.readouterr().err


@pytest.mark.slow
def test_gate_without_evidence_never_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    operators = table("operators", [(0, 40), (100, 1)])
    marked = table("steps", [(0, 100), (100, 100)])

    def saved(name: str, rank: int | None, steps: pd.DataFrame | None = None) -> str:
        recorded = {"operators": operators} | ({} if steps is None else {"steps": steps})
        info = Info(name, collector="mindspore", rank=rank)
        return str(Profile(Decoded(factories.all_tables(**recorded), info)).save(tmp_path / name / "run"))

    cases = {
        saved("host", None): 1,
        saved("steps", None, marked): 4,
        saved("set/ranked", 0): 4,
    }
    saved("set/other", None)
    saved("none/first", None)
    saved("none/second", None)
    cases |= {str(tmp_path / "set"): 4, str(tmp_path / "none"): 1}
    del cases[str(tmp_path / "set/ranked/run")]
    for path, status in cases.items():
        assert cli.main(["advise", path, "--fail-on", "5%"]) == status, path
        printed = capsys.readouterr()
        if path.endswith("set"):
            assert "1 other run here has no rank, and no part in these findings" in printed.out
        if path.endswith(("set", "none")):
            command = own_command("advise", tmp_path).rstrip("'")  # of a path below, which may be quoted
            assert f"judge them one at a time: {command}" in printed.err
            assert "runs.at(" not in printed.err


def test_samples_of_mindspore_are_called_mindspore(samples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = npuprof.load_set(samples / "mindspore" / "cpu")
    assert (len(runs), set(runs.info["front_end"])) == (7, {"mindspore"})
    assert cli.main(["advise", str(samples / "mindspore" / "cpu" / "case_cpu"), "--fail-on", "5%"]) == 1
    assert "collect with profiler_level=ProfilerLevel.Level1\n" in capsys.readouterr().out
    assert cli.main(["advise", str(samples / "mindspore" / "cpu"), "--fail-on", "5%"]) == 4
    assert "--level" not in capsys.readouterr().out


def test_doctor_prints_a_line_for_each_thing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = cli.main(["doctor", "--output", str(tmp_path)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2].startswith("Next: ")
    assert lines[-1].startswith("  ")
    assert {line.split()[0] for line in lines[:-3]} <= {"ok", "absent", "problem"}
    assert any("simulator" in line for line in lines)
    assert status == int(any(line.startswith("problem") for line in lines))


@pytest.mark.parametrize("arguments", [["profile"], ["open"]])
def test_wrong_usage_is_status_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    assert "usage: npuprof" in capsys.readouterr().err


@pytest.mark.slow
def test_open_writes_the_page_of_many_ranks(samples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    assert cli.main(["open", str(samples / "torch_npu" / "text" / "level1"), "--html", str(page)]) == 0
    assert str(page) in capsys.readouterr().out
    assert "rank 1" in page.read_text()


def test_without_a_command_the_first_ones_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("usage: npuprof")
    assert "npuprof doctor" in shown
    assert "npuprof demo" in shown


@pytest.mark.slow
def test_the_package_runs_as_a_module() -> None:
    ended = subprocess.run([sys.executable, "-m", "npuprof"], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr.startswith("usage: npuprof")


@pytest.mark.slow
def test_a_reader_that_has_enough_ends_a_command_quietly() -> None:
    program = [sys.executable, "-c", "import sys; from npuprof.cli import main; sys.exit(main(['doctor']))"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as command:
        assert command.stdout is not None
        assert command.stderr is not None
        command.stdout.close()  # as head does
        assert command.stderr.read() == b""
        assert command.wait(pace.seconds(60)) == 141


def _saved(path: Path, microseconds: list[int]) -> str:
    """Save a run of steps of these lengths one after another, each filled by one kernel; return where."""
    made = run([[("Op", "8", length * 1_000)] for length in microseconds])
    lengths = np.array([*microseconds, 0], np.int64) * 1_000  # a last one ends the one before it
    starts = BASE + np.concatenate(([0], np.cumsum(lengths)[:-1]))
    steps = made.steps.assign(start_ns=starts, duration_ns=np.maximum(lengths, 1))
    return str(profile({"kernels": made.kernels.assign(start_ns=starts[:-1]), "steps": steps}).save(path))


@pytest.mark.slow
def test_compare_fails_where_a_run_is_slower_beyond_noise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steady = [900, 1000, 1001, 999, 1002, 998, 1000]  # the first step is not counted
    base = _saved(tmp_path / "base", steady)
    slower = _saved(tmp_path / "slower", [length + 50 for length in steady])
    varying = _saved(tmp_path / "varying", [900, 400, 1700, 1200, 700, 1900, 500])
    once = _saved(tmp_path / "once", [1_200])
    for a, limit, status in (
        (slower, "3%", 3),
        (slower, "10%", 0),
        (base, "3%", 0),
        (varying, "3%", 4),
        (once, "3%", 4),
    ):
        assert cli.main(["compare", a, base, "--fail-on", limit]) == status
        shown = capsys.readouterr()
        assert " against " in shown.out.splitlines()[0]
        assert " a step  was " in shown.out
        assert "slower by" in shown.err
    assert cli.main(["compare", slower, base, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["delta_ns"] == 50_000
    assert cli.main(["compare", slower, str(tmp_path / "none"), "--fail-on", "3%"]) == 1
    assert "none" in capsys.readouterr().err


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"npuprof {npuprof.__version__}\n"


@pytest.mark.parametrize("words", [["--overhead"], ["--if-unavailable", "run"], ["--saved-bytes", "9"], ["--engines"]])
def test_cell_options_stay_in_cells(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "--help"]) == 0
    offered = capsys.readouterr().out
    assert "--collector" in offered
    assert words[0] not in offered
    assert cli.main(["run", *words, "train.py"]) == 2
    assert "leave it out" in capsys.readouterr().err
