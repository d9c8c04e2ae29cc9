"""A session asked for by the environment: begins at the import, ends with the process, never breaks either."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import npuprof
from npuprof.errors import OptionsError
from npuprof.options import Options
from npuprof.session import from_environment
from tests import pace

_PROGRAM = """
import npuprof
from npuprof.simulator import npu
npu.asarray([1.0, 2.0]) + 1.0
{more}
print("the program ran")
"""


def _run(tmp_path: Path, variables: dict[str, str], more: str = "") -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("NPUPROF_", "MS_PROF"))}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", _PROGRAM.format(more=more)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**environ, **variables},
        timeout=pace.seconds(60),
    )


def _ours(output: Path, **options: Any) -> dict[str, str]:
    plain = {"collector": "simulator", "activities": ["npu"], "output": str(output), **options}
    return {"NPUPROF_OPTIONS": json.dumps(plain)}


@pytest.mark.slow
def test_collects_from_import_to_end(tmp_path: Path) -> None:
    done = _run(tmp_path, _ours(tmp_path / "out", name="env"))
    assert (done.returncode, done.stdout) == (0, "the program ran\n")
    (recording,) = (tmp_path / "out").iterdir()
    assert f"NPUPROF_OPTIONS: collecting with simulator (asked for) into {recording}" in done.stderr
    assert f"npuprof.load('{recording}')" in done.stderr
    run = npuprof.load(recording)
    assert len(run.kernels) == 1
    assert run.info.name == "env"
    assert not [message for message in run.notes["message"] if "was not stopped" in message]


@pytest.mark.long
def test_a_program_that_fails_is_recorded_all_the_same(tmp_path: Path) -> None:
    done = _run(tmp_path, _ours(tmp_path / "out"), more="raise ValueError('its own')")
    assert done.returncode == 1
    assert "ValueError: its own" in done.stderr
    assert len(npuprof.load(next((tmp_path / "out").iterdir())).kernels) == 1


@pytest.mark.slow
def test_a_forked_child_leaves_the_session_to_its_parent(tmp_path: Path) -> None:
    more = "import os, sys\nif os.fork() == 0: sys.exit()\nos.wait()"
    done = _run(tmp_path, _ours(tmp_path / "out"), more)
    assert (done.returncode, done.stdout) == (0, "the program ran\n")
    assert done.stderr.count("open it with") == 1


_AWAITING = """
import npuprof
print("npuprof is imported")
{first}
from npuprof.simulator import npu
npu.asarray([1.0, 2.0]) + 1.0
print("the program ran")
"""


def _installed(tmp_path: Path) -> None:
    """Put into the program's folder a framework, and a pyACL that is the simulated one."""
    (tmp_path / "mindspore.py").write_text("raise ImportError('it must not be imported by npuprof')")
    (tmp_path / "acl.py").write_text("from npuprof.simulator.acl import *\nfrom npuprof.simulator.acl import prof, rt")


def _run_awaiting(tmp_path: Path, first: str) -> subprocess.CompletedProcess[str]:
    _installed(tmp_path)
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("NPUPROF_", "MS_PROF"))}
    options = json.dumps({"activities": "npu", "output": str(tmp_path / "out")})
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", _AWAITING.format(first=first)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**environ, "NPUPROF_OPTIONS": options},
        timeout=pace.seconds(60),
    )


@pytest.mark.slow
def test_where_an_import_will_decide_the_session_begins_with_it(tmp_path: Path) -> None:
    first = "import os\nprint(os.path.exists('out'))\nimport acl\nprint(os.path.exists('out'))"
    done = _run_awaiting(tmp_path, first)
    assert done.stdout == "npuprof is imported\nFalse\nTrue\nthe program ran\n", done.stderr
    assert "NPUPROF_OPTIONS: collecting begins when the program imports one of mindspore, acl" in done.stderr
    assert "collecting with acl (pyACL is installed; MindSpore, which is installed too, is not imported)" in done.stderr
    (recording,) = (tmp_path / "out").iterdir()
    assert len(npuprof.load(recording).kernels) == 1


@pytest.mark.slow
def test_failing_import_is_the_programs(tmp_path: Path) -> None:
    done = _run_awaiting(
        tmp_path, "try:\n    import mindspore\nexcept ImportError as error:\n    print(error)\nimport acl"
    )
    assert "it must not be imported by npuprof\nthe program ran\n" in done.stdout
    assert "collecting with acl" in done.stderr


@pytest.mark.slow
def test_a_program_without_such_an_import_is_reported_at_its_end(tmp_path: Path) -> None:
    done = _run_awaiting(tmp_path, "")
    assert (done.returncode, (tmp_path / "out").exists()) == (0, False)
    assert "nothing was collected, because the program imported none of mindspore, acl" in done.stderr
    assert "collecting with" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("{", "not valid JSON"),
        ("[1]", "must be a JSON object"),
        ('{"level": 7}', "level must be one of none, 0, 1, 2"),
        ('{"lvl": 1}', "unknown option lvl"),
        ('{"collector": "torch_npu"}', "cannot be imported"),
        ('{"collector": "simulator", "output": "/proc/none"}', "choose another directory"),
    ],
)
def test_a_wrong_value_is_reported_and_the_program_runs(tmp_path: Path, value: str, told: str) -> None:
    if "torch_npu" in value:
        (tmp_path / "torch_npu.py").write_text("raise OSError('no CANN')")
        (tmp_path / "torch.py").write_text("")
    done = _run(tmp_path, {"NPUPROF_OPTIONS": value})
    assert (done.returncode, done.stdout) == (0, "the program ran\n")
    assert "NPUPROF_OPTIONS: nothing is collected: " in done.stderr
    assert told in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("variables", [{}, {"NPUPROF_OPTIONS": ""}, {"MS_PROFILER_OPTIONS": ""}])
def test_where_nothing_is_asked_for_nothing_is_imported_for_it(tmp_path: Path, variables: dict[str, str]) -> None:
    more = "import sys; print([name for name in sys.modules if 'from_env' in name or 'mindspore' in name])"
    done = _run(tmp_path, variables, more)
    assert (done.stdout, done.stderr) == ("[]\nthe program ran\n", "")


def test_mindspores_variable_is_understood_where_mindspore_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("npuprof.collectors.registry.is_installed", lambda name: False)
    asked, name = from_environment.options({"MS_PROFILER_OPTIONS": '{"start": true, "nonsense": 1}'})
    assert (asked, name) == (Options(level=0, marks=False, output=Path("data")), "MS_PROFILER_OPTIONS")
    assert "nonsense is unknown" in caplog.text


@pytest.mark.slow
def test_lacking_mindspore_options_are_reported(tmp_path: Path) -> None:
    asked = {"start": True, "output_path": str(tmp_path / "out"), "parallel_strategy": True, "l2_cache": True}
    done = _run(tmp_path, {"MS_PROFILER_OPTIONS": json.dumps(asked)})
    assert (done.returncode, done.stdout) == (0, "the program ran\n")
    assert "MS_PROFILER_OPTIONS: parallel_strategy left out: simulator has no parallel_strategy" in done.stderr
    (recording,) = (tmp_path / "out").iterdir()
    run = npuprof.load(recording)
    assert (len(run.kernels), run.info.options["l2"], run.info.options["parallel_strategy"]) == (1, True, False)


def test_installed_mindspore_reads_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("npuprof.collectors.registry.is_installed", lambda name: name == "mindspore")
    assert from_environment.options({"MS_PROFILER_OPTIONS": '{"start": true}'}) == (None, "")


def test_our_own_variable_comes_first() -> None:
    asked, name = from_environment.options({"MS_PROFILER_OPTIONS": "{", "NPUPROF_OPTIONS": '{"level": 2}'})
    assert (asked, name) == (Options(level=2), "NPUPROF_OPTIONS")
    with pytest.raises(OptionsError):
        from_environment.options({"NPUPROF_OPTIONS": "{"})


@pytest.mark.slow
def test_it_ends_where_the_program_profiles_itself_and_both_recordings_stay(tmp_path: Path) -> None:
    more = (
        "with npuprof.profile(collector='simulator', activities=['npu'], output='own', name='mine') as prof:\n"
        "    npu.asarray([1.0]) + 1.0\n    npu.asarray([1.0]) + 1.0\nprint(len(prof.result.kernels))"
    )
    done = _run(tmp_path, _ours(tmp_path / "out"), more)
    assert (done.returncode, done.stdout) == (0, "2\nthe program ran\n"), done.stderr
    assert (
        "NPUPROF_OPTIONS: the program profiles itself with mine, so the session of NPUPROF_OPTIONS ends" in done.stderr
    )
    assert done.stderr.count("open it with npuprof.load(") == 1
    (recording,) = (tmp_path / "out").iterdir()
    run = npuprof.load(recording)
    assert len(run.kernels) == 1
    assert not [message for message in run.notes["message"] if "was not stopped" in message]


@pytest.mark.slow
def test_refused_session_ends_no_other(tmp_path: Path) -> None:
    more = (
        "try:\n    npuprof.profile(collector='simulator', sys_io=True).start()\n"
        "except npuprof.NpuprofError as error:\n    print('refused')\nnpu.asarray([1.0]) + 1.0"
    )
    done = _run(tmp_path, _ours(tmp_path / "out"), more)
    assert done.stdout == "refused\nthe program ran\n", done.stderr
    (recording,) = (tmp_path / "out").iterdir()
    assert len(npuprof.load(recording).kernels) == 2


@pytest.mark.slow
def test_npuprofs_own_processes_inherit_no_wish_to_collect(tmp_path: Path) -> None:
    more = (
        "import npuprof.machine.environment\nprint(npuprof.machine.environment.of_own_process().get('NPUPROF_OPTIONS'))"
    )
    assert _run(tmp_path, _ours(tmp_path / "out"), more).stdout == "None\nthe program ran\n"


@pytest.mark.slow
@pytest.mark.parametrize("by", ["module", "script"])
def test_the_command_is_not_collected_from(by: str, tmp_path: Path) -> None:
    script = tmp_path / "npuprof"
    script.write_text("import sys\nfrom npuprof.cli import main\nsys.exit(main())\n")  # as pip writes it
    done = subprocess.run(
        [sys.executable, *(["-m", "npuprof"] if by == "module" else [str(script)]), "doctor", "--help"],
        capture_output=True,
        text=True,
        env={**os.environ, **_ours(tmp_path / "out")},
        timeout=pace.seconds(60),
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("program", ["npuprof", "npuprof/__main__.py"])
def test_program_named_npuprof_is_profiled(program: str, tmp_path: Path) -> None:
    script = tmp_path / "work" / program
    script.parent.mkdir(parents=True)
    script.write_text(_PROGRAM.format(more=""))
    done = subprocess.run(
        [sys.executable, str(tmp_path / "work" / "npuprof")],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, **_ours(tmp_path / "out")},
        timeout=pace.seconds(60),
    )
    assert (done.returncode, done.stdout) == (0, "the program ran\n"), done.stderr
    (recording,) = (tmp_path / "out").iterdir()
    assert len(npuprof.load(recording).kernels) == 1
