"""Device time in the flame graph of a cell is below the lines that launched it, and below nothing that ran the cell."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from npuprof import simulator
from npuprof.exports.stacks import folded_stacks
from npuprof.flame.tree import call_tree
from npuprof.profiles.profile import Profile
from tests import pace
from tests.notebook.cells import Cells, output

_FUNCTIONS = "def f(x):\n    return np.sin(x)\ndef g(x):\n    return np.cos(x)"
_LOOP = "for i in range(20):\n    y = f(x); z = g(x)\n    if i % 5 == 0:\n        np.exp(y)\n"


@pytest.fixture
def cells(tmp_path: Path) -> Iterator[Cells]:
    simulator.reset()
    made = Cells(tmp_path)
    made.run("import numpy as np\nfrom npuprof.simulator import npu\nx = npu.ones((64, 64))")
    made.run(_FUNCTIONS)
    yield made
    made.magics.uninstall()


def _paths(run: Profile) -> dict[str, int]:
    """Return how many paths of other layers there are below each path of Python frames."""
    sums: dict[str, int] = {}
    for line in folded_stacks(run.tables, "device"):
        path, _, _ = line.rpartition(" ")
        frames = tuple(frame for frame in path.split(";") if "In [" in frame or ".py" in frame)
        sums[" > ".join(frames)] = sums.get(" > ".join(frames), 0) + 1
    return sums


def test_device_time_is_below_the_stacks_of_launches(cells: Cells) -> None:
    run = cells.profile(_LOOP, "--level 1 --stacks")
    # GIVEN two functions and a statement that launch a kernel each THEN each has its path, whatever was sampled.
    assert set(_paths(run)) == {
        "In [3], line 3 > In [2], line 2: f",
        "In [3], line 3 > In [2], line 4: g",
        "In [3], line 5",
    }
    tree = call_tree(run.tables)
    assert tree["self_device_ns"].sum() == run.kernels["duration_ns"].sum()
    roots = tree[(tree["parent"] < 0) & (tree["device_ns"] > 0)]
    assert set(roots["name"]) == {"<cell [3]>(3): <module>", "<cell [3]>(5): <module>"}
    assert (roots["host_ns"] == 0).all()  # host time stays with what was sampled
    of_line = run.by("line").set_index("line")["total_ns"]
    assert roots.set_index("name")["device_ns"]["<cell [3]>(5): <module>"] == of_line["In [3], line 5"]


def test_a_thread_without_a_cell_has_its_path_from_the_users_first_frame(cells: Cells) -> None:
    run = cells.profile(
        "import threading\ndef work():\n    for _ in range(4):\n        f(x)\n"
        "thread = threading.Thread(target=work)\nthread.start()\nthread.join()",
        "--stacks",
    )
    assert set(_paths(run)) == {"In [3], line 5: work > In [2], line 2: f"}


def test_without_stacks_of_calls_device_time_is_below_what_was_sampled(cells: Cells) -> None:
    run = cells.profile(_LOOP, "--level 1 --stacks")
    run.tables["api"] = run.tables["api"].drop(columns="stack")
    tree = call_tree(run.tables)
    assert tree["self_device_ns"].sum() == run.kernels["duration_ns"].sum()
    assert not [name for name in tree["name"] if "IPython" in name]


@pytest.mark.slow
def test_a_script_that_drives_a_shell_is_in_no_path(tmp_path: Path) -> None:
    script = tmp_path / "drive.py"
    cell = f"%%npuprof --collector simulator --level 1 --stacks --no-report {output(tmp_path)}\nimport time\n{_LOOP}"
    script.write_text(
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "import npuprof\nfrom npuprof.flame.tree import call_tree\n"
        "def main():\n"
        "    shell = InteractiveShell()\n    shell.run_line_magic('load_ext', 'npuprof')\n"
        "    shell.run_cell('import numpy as np\\nfrom npuprof.simulator import npu\\nx = npu.ones((64, 64))')\n"
        f"    shell.run_cell({_FUNCTIONS!r})\n    shell.run_cell({cell + '    time.sleep(0.01)'!r}).raise_error()\n"
        "    print(sorted(set(call_tree(npuprof.last().tables)['name'])))\n"
        "main()\n"
    )
    ran = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        check=True,
        timeout=pace.seconds(120),
        cwd=tmp_path,
        env={"PATH": "", "HOME": str(tmp_path), "IPYTHONDIR": str(tmp_path)},
    )
    names = ran.stdout.splitlines()[-1]
    assert "<cell" in names
    assert "drive.py" not in names
    assert "IPython" not in names
