"""A process that is killed while it collects leaves a recording that opens with what was flushed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import npuprof
from tests import pace

_LAUNCHES_A_ROUND = 500
_PROGRAM = f"""
import sys
import npuprof
from npuprof.simulator import Tensor, current

half = Tensor((64, 64), "float16")
with npuprof.profile(collector="simulator", output=sys.argv[1], level=1, aic_metrics="PipeUtilization"):
    device = current().device(0)
    while True:
        for _ in range({_LAUNCHES_A_ROUND}):
            device.launch("MatMulV3", core="AI_CORE", inputs=(half, half), outputs=(half,), flops=1000)
        device.synchronize()
        print("launched", flush=True)
"""
_PATIENCE_S = 60


def _flushed_bytes(folder: Path) -> int:
    slices = (file for side in ("host", "device_0") for file in folder.glob(f"**/{side}/data/*slice_*"))
    return sum(file.stat().st_size for file in slices)


@pytest.mark.slow
def test_a_killed_process_leaves_what_was_flushed(tmp_path: Path) -> None:
    # GIVEN a process that is killed in the middle of its work, when some of it is on disk
    command = [sys.executable, "-c", _PROGRAM, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        rounds = 0
        deadline = time.monotonic() + pace.seconds(_PATIENCE_S)
        while _flushed_bytes(tmp_path) < 1 << 20 or rounds < 4:
            assert process.stdout.readline() == "launched\n", process.stderr.read() if process.stderr else ""
            rounds += 1
            assert time.monotonic() < deadline
        process.kill()
        rounds += process.stdout.read().count("launched\n") + 1
        assert process.wait() == -signal.SIGKILL
    (recording,) = tmp_path.glob("**/PROF_*")
    # WHEN what it left is opened
    run = npuprof.load(recording)
    # THEN all that was flushed is there, joined as ever, and the notes say that the end is missing
    kernels = run.kernels
    assert 0 < len(kernels) <= rounds * _LAUNCHES_A_ROUND
    assert kernels["op_type"].tolist() == ["MatMulV3"] * len(kernels)
    assert kernels["connection_id"].is_unique
    assert kernels["aic_total_cycles"].notna().mean() > 0.9
    messages = run.notes["message"]
    assert messages.str.contains("end_info is missing").any()
    assert not (run.notes["severity"] == "error").any()


def test_the_folder_of_a_killed_run_opens_too(tmp_path: Path) -> None:
    folder = tmp_path / "PROF_x" / "host"
    (folder / "data").mkdir(parents=True)
    run = npuprof.load(folder.parent)  # killed before anything was flushed
    assert run.kernels.empty
    assert len(run.notes)
