"""The whole road: verdict, lines, and the one file, on the simulated NPU and with front ends that break."""

from __future__ import annotations

import json
import platform
import shutil
from pathlib import Path
from typing import Any

import pytest

from npuprof import cli, verification
from npuprof.machine.doctor import Diagnosis
from tests.collectors import msprof_double


def _only(*names: str) -> list[Diagnosis]:
    return [Diagnosis(f"front end {name}", "ok", "") for name in names]


@pytest.fixture(autouse=True)
def _simulated_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "diagnose", lambda output: _only("simulator"))


@pytest.mark.slow
def test_without_an_npu_the_simulated_one_is_verified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("SOME_TOKEN", "s3cr3t")
    assert cli.main(["doctor", "--verify", "--output", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "pass    simulator: kernels of MatMul" in shown
    assert "skipped simulator: vendor's export" in shown or shutil.which("msprof")
    assert "so the NPU was simulated" in shown
    (file,) = tmp_path.glob("npuprof-verification_*.json")
    assert str(file) in shown
    plain = json.loads(file.read_text())
    (front_end,) = plain["front_ends"]
    assert front_end["rows"]["kernels"] == 10
    assert plain["environment"]["ASCEND_RT_VISIBLE_DEVICES"] == "0"
    assert "s3cr3t" not in file.read_text()
    assert platform.node() not in file.read_text()


# Writes the kernels as the tool's table has them; a duration is changed where the test wants a difference.
_EXPORTER = """
import pathlib, sys, npuprof
directory = pathlib.Path(sys.argv[1])
rows = ["Device_id,Task ID,Stream ID,Op Name,OP Type,Task Type,Task Start Time(us),Task Duration(us),Block Num"]
for row in npuprof.load(directory).kernels.itertuples():
    start, duration = (f"{ns // 1000}.{ns % 1000:03d}" for ns in (row.start_ns, row.duration_ns + CHANGE))
    CHANGE = 0
    names = f"{row.op_name},{row.op_type},{row.core}"
    rows.append(f"{row.device_id},{row.task_id},{row.stream_id},{names},{start}\\t,{duration},{row.block_num}")
(directory / "mindstudio_profiler_output").mkdir()
(directory / "mindstudio_profiler_output" / "op_summary_20260101000000.csv").write_text("\\n".join(rows) + "\\n")
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("exporter", "passed", "told"),
    [
        (f"CHANGE = 0{_EXPORTER}", True, "pass    simulator: kernels as the vendor's"),
        (f"CHANGE = 20{_EXPORTER}", False, "9 of 10 rows equal"),
        ("", False, "FAIL    simulator: comparison"),
        ("raise SystemExit(255)", False, "FAIL    simulator: vendor's export"),
    ],
)
def test_where_msprof_is_installed_its_export_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exporter: str, passed: bool, told: str
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    msprof_double.install(folder)
    monkeypatch.setenv("PATH", msprof_double.put_on_path(folder))
    monkeypatch.setenv("FAKE_MSPROF", json.dumps({"exporter": exporter}))
    lines: list[str] = []
    verdict = verification.verify(tmp_path / "out", lines.append)
    assert verdict.passed is passed, lines
    assert told in "\n".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "told"),
    [("import os; os._exit(9)", "ended with status 9"), ("import time; time.sleep(60)", "took more than 1 s")],
)
def test_a_front_end_that_takes_its_process_down_is_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, told: str
) -> None:
    import subprocess

    run = subprocess.run

    def broken(command: list[str], **how: Any) -> Any:
        return run([command[0], "-c", program], **how)

    monkeypatch.setattr("npuprof.verification.subprocess.run", broken)
    monkeypatch.setattr(verification, "_ONE_S", 1.0 if "sleep" in program else 60.0)
    verdict = verification.verify(tmp_path, lambda line: None)
    assert not verdict.passed
    assert told in verdict.report.read_text()


@pytest.mark.parametrize(
    ("ready", "verified"),
    [
        (["simulator"], ["simulator"]),
        (["kineto", "simulator"], ["kineto", "simulator"]),
        (["acl", "torch_npu", "kineto", "simulator"], ["acl", "torch_npu", "kineto"]),
        (["mindspore", "simulator"], ["mindspore", "simulator"]),
    ],
)
def test_ready_front_ends_are_verified(ready: list[str], verified: list[str]) -> None:
    assert verification._present(_only(*ready)) == verified
    assert verification._present([Diagnosis("front end acl", "problem", "")]) == []
    on_npu = [Diagnosis("front end mindspore", "ok", "mindspore 2.5, target Ascend"), *_only("simulator")]
    assert verification._present(on_npu) == ["mindspore"]


def test_only_relevant_variables_without_secrets_are_reported() -> None:
    variables = {
        "ASCEND_HOME_PATH": "/usr/local/Ascend",
        "RANK": "1",
        "RANK_TABLE_FILE": "t.json",
        "HCCL_AUTH_TOKEN": "x",
        "AWS_SECRET": "x",
        "HTTP_PROXY": "http://me:pw@proxy",
        "HOME": "/home/me",
    }
    assert list(verification.environment(variables)) == ["ASCEND_HOME_PATH", "RANK", "RANK_TABLE_FILE"]


def test_names_are_taken_out_of_every_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("npuprof.verification.platform.node", lambda: "node7")
    monkeypatch.setenv("HOME", "/home/me")
    written = verification.write(
        tmp_path, {"a": ["/home/me/run", "/home/me2/run"], "node7": {"b": "at node7.", "c": "node77", "d": 1}}
    )
    plain = json.loads(written.read_text())
    assert plain == {"a": ["~/run", "/home/me2/run"], "HOST": {"b": "at HOST.", "c": "node77", "d": 1}}
    written = verification.write(tmp_path, {"url": "https://me:pw@host/simple"})
    assert json.loads(written.read_text()) == {"url": "https://host/simple"}
