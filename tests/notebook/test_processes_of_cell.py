"""In a real kernel: a cell that starts processes, with and without the option that profiles them."""

from __future__ import annotations

import importlib.util
import shlex
import sys
from pathlib import Path

import pytest

from tests.notebook.cells import output
from tests.notebook.kernel import Kernel

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

_WORK = """
from npuprof.simulator import npu
import os
x = npu.ones((32, 32))
for _ in range(3):
    y = x @ x
print("of the process")
"""


@pytest.fixture(autouse=True)
def imported(kernel: Kernel) -> None:
    assert kernel.run("import npuprof, os").status == "ok"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "work.py"
    path.write_text(_WORK)
    return path


def _command(program: Path) -> str:
    return shlex.join([sys.executable, str(program)])


def test_a_cell_that_starts_processes_shows_the_report_of_their_set(kernel: Kernel, program: Path) -> None:
    executed = kernel.run(
        f"%%npuprof --processes {output(program.parent / 'out')}\n"
        f"import os\nfor rank in range(2):\n    os.environ['RANK'] = str(rank)\n    !{_command(program)}\n"
        "del os.environ['RANK']\n6 * 7"
    )
    assert executed.status == "ok", executed.traceback()
    assert executed.value == "42"
    assert executed.stream().count("of the process") == 2
    shown = "".join(data["text/plain"] for data in executed.displays)
    assert "· 2 ranks · " in shown
    assert kernel.evaluate("type(npuprof.last()).__name__, npuprof.last().ranks") == "('ProfileSet', [0, 1])"
    assert kernel.evaluate("[len(run.kernels) for run in npuprof.last()]") == "[4, 4]"
    assert kernel.evaluate("'NPUPROF_JOB' in os.environ") == "False"


def test_a_cell_whose_processes_used_a_front_end_says_so_first(kernel: Kernel, program: Path) -> None:
    executed = kernel.run(f"%%npuprof {output(program.parent / 'out')}\n!{_command(program)}")
    shown = " ".join(executed.displays[0]["text/plain"].split())
    assert "were not profiled (imported at least by 1 npuprof.simulator.npu): add --processes" in shown
    assert "the NPU was not used" not in executed.displays[0]["text/plain"]


@pytest.mark.long
def test_functions_of_the_cell_that_forked_processes_run_have_its_lines(kernel: Kernel, tmp_path: Path) -> None:
    executed = kernel.run(
        f"%%npuprof --processes {output(tmp_path / 'out')}\n"
        "import multiprocessing\nfrom npuprof.simulator import npu\ndef work(rank):\n    x = npu.ones((16, 16))\n"
        "    for _ in range(4):\n        y = x @ x\n"
        "context = multiprocessing.get_context('fork')\n"
        "processes = [context.Process(target=work, args=(n,)) for n in (0, 1)]\n"
        "[process.start() for process in processes]\n[process.join() for process in processes]\n"
    )
    assert executed.status == "ok", executed.traceback()
    lines = kernel.evaluate("sorted(set(npuprof.last()[1].by('line')['line'].dropna()))")
    assert ", line 7" in lines
    annotated = "npuprof.last()[1].code().to_frame().dropna(subset=['line']).set_index('line')"
    assert kernel.evaluate(f"{annotated}['text'][7].strip(), int({annotated}['launches'][7])") == "('y = x @ x', 4)"


@pytest.mark.long
@pytest.mark.torch
@pytest.mark.long
@pytest.mark.parametrize("options", ["", " --stacks"])
def test_functions_of_the_cell_that_a_launcher_runs_have_its_lines(
    kernel: Kernel, tmp_path: Path, options: str
) -> None:
    for module in ("torch", "accelerate"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed for this Python")
    kernel.run("os.environ.update(ACCELERATE_USE_CPU='true', GLOO_SOCKET_IFNAME='lo', OMP_NUM_THREADS='1')")
    executed = kernel.run(
        f"%%npuprof --processes --collector kineto{options} {output(tmp_path / 'out')}\n"
        "from accelerate import notebook_launcher\ndef work():\n    import time, torch\n    torch.set_num_threads(1)\n"
        "    for _ in range(4):\n        time.sleep(0.05)\n        torch.ones(64) * 2\n"
        "notebook_launcher(work, num_processes=2, use_port='29723')"
    )
    assert executed.status == "ok", executed.traceback()
    assert kernel.evaluate("npuprof.last().ranks") == "[0, 1]"
    for rank in (0, 1):  # torch's own recorder of stacks would crash in a process that was forked while it recorded
        kernel.run(f"lines = npuprof.last()[{rank}].code().to_frame()")
        kernel.run("lines = lines[lines['file'].str.contains('cell|ipykernel_', na=False)]")
        assert kernel.evaluate("bool(lines['file'].str.fullmatch(r'<cell .[0-9]+.>').all())") == "True"
        of_line = "lines['host_ns'][lines['text'].str.strip() == 'time.sleep(0.05)']"
        assert kernel.evaluate(f"int({of_line}.max()) > 10**8") == "True"
        said = f"npuprof.last()[{rank}].notes['message'].str.contains('stacks are sampled')"
        assert kernel.evaluate(f"int({said}.sum())") == str(int(bool(options)))


def test_the_magic_runs_a_program_whose_processes_are_ranks(kernel: Kernel, program: Path) -> None:
    launcher = program.with_name("launch.py")
    launcher.write_text(
        f"import os, subprocess, sys\nfor rank in '01':\n    os.environ['RANK'] = rank\n"
        f"    subprocess.run([sys.executable, {str(program)!r}], check=True)\nsys.exit(len(sys.argv) - 1)\n"
    )
    executed = kernel.run(f"%npuprof run --processes {output(program.parent / 'out')} {shlex.quote(str(launcher))}")
    assert executed.status == "ok", executed.traceback()
    assert executed.stream().count("of the process") == 2
    assert "· 2 ranks · " in "".join(data["text/plain"] for data in executed.displays)
    assert kernel.evaluate("[len(run.kernels) for run in npuprof.last()]") == "[4, 4]"
    failed = kernel.run(f"%npuprof run --processes {output(program.parent / 'out')} {shlex.quote(str(launcher))} 1 2")
    assert failed.reply["ename"] == "SessionError"
    assert "status 2" in failed.reply["evalue"]
