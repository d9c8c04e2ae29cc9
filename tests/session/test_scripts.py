"""Scripts that a front end profiles from within: `npuprof run --collector simulator script.py`."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import npuprof
from npuprof.errors import CollectorError, OptionsError
from npuprof.lines.rewriting import Rewriting
from npuprof.options import Options
from npuprof.session.applications import run_application

_SCRIPT = """\
\"\"\"The text of the module.\"\"\"
from __future__ import annotations

import sys
import numpy as np
from npuprof.simulator import npu


class Optimizer:
    def step(self):
        np.tan(x)


def forward(x):
    return np.sin(x)


x: object = npu.ones((64, 64))
if __name__ == "__main__":
    optimizer = Optimizer()
    print("begins", *sys.argv[1:], __doc__)
    for epoch in range(2):
        for i in range(5):
            y = forward(x)
            optimizer.step()
        for i in range(3):
            np.cos(x)
    if sys.argv[1:] == ["fails"]:
        raise ValueError("bad")
    sys.exit(len(sys.argv) - 2)
"""


def _run(folder: Path, *arguments: str, **options: object) -> tuple[npuprof.Profile, str]:
    script = folder / "train.py"
    script.write_text(_SCRIPT)
    shown: list[str] = []
    chosen = Options.from_dict({"collector": "simulator", "output": folder / "out", "level": 1, **options})
    run_application([str(script), *arguments], chosen, echo=shown.append)
    return npuprof.last(), "".join(shown)


@pytest.mark.slow
def test_script_loop_makes_steps_and_costs(tmp_path: Path) -> None:
    run, shown = _run(tmp_path, "a")
    assert shown == "begins a The text of the module.\n"
    assert run.info.simulated
    assert not run.info.failed
    told = r"mean of 9 steps[,:].* the loop of line 23; 6 of the loop of line 26 take"  # outliers may stand between
    assert re.search(told, run.advice().headline())
    script = str(tmp_path / "train.py")
    assert set(run.statements["file"]) == {script}
    assert run.statements["line"].tolist()[:4] == [4, 5, 6, 9]
    sums = dict(run.by("line")[["line", "count"]].itertuples(index=False, name=None))
    assert sums == {"train.py:11": 10, "train.py:15": 10, "train.py:27": 6, "train.py:18": 1}
    assert "y = forward(x)" in run.code().text()


@pytest.mark.slow
def test_a_script_that_fails_shows_its_traceback_alone_and_is_kept(tmp_path: Path) -> None:
    run, shown = _run(tmp_path, "fails")
    assert run.info.failed == "ValueError: bad"
    assert shown.splitlines()[1:] == [
        "Traceback (most recent call last):",
        f'  File "{tmp_path / "train.py"}", line 29, in <module>',
        '    raise ValueError("bad")',
        "ValueError: bad",
    ]
    assert run.steps["counted"].sum() == 10


@pytest.mark.slow
def test_script_without_lines_is_untouched(tmp_path: Path) -> None:
    run, _ = _run(tmp_path, "a", "b", "c", steps=False, lines=False)
    assert run.info.failed == "SystemExit: 2"
    assert not len(run.statements)
    assert not len(run.steps)
    assert len(run.kernels) == 27


@pytest.mark.slow
def test_refusing_front_end_is_told_before_the_script(tmp_path: Path) -> None:
    with pytest.raises(CollectorError, match="acl"):
        _run(tmp_path, "a", collector="acl")
    assert not list(tmp_path.glob("out/*"))
    (tmp_path / "train.py").write_text("def")
    with pytest.raises(CollectorError, match="cannot be run: SyntaxError"):
        run_application([str(tmp_path / "train.py")], Options(collector="simulator", output=tmp_path))
    with pytest.raises(OptionsError, match="profiles a Python script from within"):
        run_application(["/bin/true"], Options(collector="simulator"))


@pytest.mark.parametrize(
    "code",
    [
        "'text'\nfrom __future__ import annotations\nx: int = 1\nfor i in range(3):\n    x += i\n",
        "x = 1\n'no text of the module'\nfor i in range(2):\n    def f(): return x\n    x = f()\nelse:\n    y = 2\n",
        "",
        "from __future__ import annotations\n",
    ],
)
def test_a_module_with_stamps_does_the_same(code: str) -> None:
    plain: dict[str, object] = {}
    exec(compile(code, "m.py", "exec", dont_inherit=True), plain)
    tree = ast.parse(code)
    rewriting = Rewriting(tree.body)
    stamped: dict[str, object] = {}
    exec(rewriting.compile(lambda made: compile(made, "m.py", "exec", dont_inherit=True), tree), stamped)
    for names in (plain, stamped):
        names.pop("__builtins__")
        names.pop("f", None)
    assert stamped == plain
    stamps = rewriting.stamps
    assert all(bool(times) for times, each in zip(stamps.times, stamps.statements, strict=False) if each.is_loop)
