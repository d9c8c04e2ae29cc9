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
from npuprof.report.html import report_html
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
    stamped = run.statements.groupby("line")["duration_ns"].sum()
    assert roots.set_index("name")["host_ns"]["<cell [3]>(5): <module>"] == stamped[5]
    of_line = run.by("line").set_index("line")["total_ns"]
    assert roots.set_index("name")["device_ns"]["<cell [3]>(5): <module>"] == of_line["In [3], line 5"]


_BATCHES = (
    "def busy(ms):\n    end = time.perf_counter() + ms / 1e3\n    while time.perf_counter() < end:\n        pass\n"
    "def next_batch():\n    busy(15)\n    return npu.ones((8, 8))\n"
)
_TRAINING = (
    "for i in range(6):\n    b = next_batch()\n    time.sleep(0.012)\n    y = np.sin(b)\n    s = sorted(range(9))"
)


def test_all_views_have_the_stamped_time(cells: Cells) -> None:
    cells.run(f"import time\n{_BATCHES}")
    run = cells.profile(_TRAINING)
    stamped = run.statements.groupby("line")["duration_ns"].sum()
    of_flame = call_tree(run.tables).query("parent < 0 and name.str.startswith('<cell [4]>(')").set_index("name")
    calls = run.python[~run.python["sampled"]]
    of_lane = calls.groupby("name", observed=True)["duration_ns"].agg(["sum", "size"])
    for line, time_ns in stamped.items():
        name = f"<cell [4]>({line}): <module>"
        assert of_lane.loc[name].tolist() == [time_ns, 7 if line == 2 else 6]
        assert of_flame["host_ns"][name] == time_ns


def test_what_samples_saw_is_within_its_statement(cells: Cells) -> None:
    cells.run(f"import time\n{_BATCHES}")
    run = cells.profile(_TRAINING)
    thread = run.statements["thread_id"].iloc[0]
    seen = run.python[run.python["sampled"] & run.python["name"].str.contains("next_batch|busy")]
    seen = seen[seen["start_ns"] >= run.statements["start_ns"].min()]
    assert len(seen)
    assert (seen["thread_id"] == thread).all()
    batches = run.statements[run.statements["line"] == 3]
    place = batches["start_ns"].searchsorted(seen["start_ns"], side="right") - 1
    ends = (batches["start_ns"] + batches["duration_ns"]).to_numpy()[place]
    assert (place >= 0).all()
    assert (seen["start_ns"] + seen["duration_ns"] <= ends).all()


def test_samples_are_seen_and_never_called(cells: Cells) -> None:
    cells.run(f"import time\n{_BATCHES}")
    run = cells.profile(_TRAINING)
    figure = run.flamegraph()
    hovers = {text.split("<br>")[0]: text for text in figure.data[0].hovertext}
    exact = next(text for name, text in hovers.items() if "In [4], line 3" in name)
    assert "Python, 6 calls" in exact
    sampled = next(text for name, text in hovers.items() if "next_batch" in name and "host 0" not in hovers[name])
    assert " in samples" in sampled
    assert " call" not in sampled.partition("self")[0]
    host = cells.profile("for i in range(6):\n    busy(15)", "--activities cpu")
    text = report_html(host._whole_report())
    assert "Python calls" not in text
    rows = host.summary.host.functions.set_index("name")
    assert rows["sampled"].to_dict()["In [5], line 3"] is False
    assert rows["sampled"].to_dict()["In [3], line 2: busy"] is True
    assert ">seen " in text


def test_thread_without_cell_starts_at_users_frame(cells: Cells) -> None:
    run = cells.profile(
        "import threading\ndef work():\n    for _ in range(4):\n        f(x)\n"
        "thread = threading.Thread(target=work)\nthread.start()\nthread.join()",
        "--stacks",
    )
    assert set(_paths(run)) == {"In [3], line 5: work > In [2], line 2: f"}


def test_device_time_hangs_below_samples(cells: Cells) -> None:
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
