"""A report as text: about thirty lines in the order of the HTML, which no name can disturb."""

from __future__ import annotations

from typing import Any

import pytest

from npuprof.profiles.profile import Profile
from npuprof.report.facts import overhead_text
from npuprof.report.model import Code, CodeLine, Problem, Report, Table
from npuprof.report.text import report_text, table_text, width
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from tests import factories


def run(notes: Notes | None = None, names: tuple[str, ...] = factories.KERNELS, **info: Any) -> Profile:
    return Profile(Decoded(factories.profile(60, kernel_names=names), factories.info(**info), notes or Notes()))


@pytest.mark.slow
def test_is_about_thirty_lines() -> None:
    lines = str(run()).splitlines()
    assert lines[0].startswith("training step · simulated NPU · Ascend 910B2 · ")
    assert any(line.split()[2:] and " a step" in line for line in lines)
    assert len(lines) <= 40
    assert max(map(len, lines[1:])) <= 120


@pytest.mark.slow
def test_real_run_is_not_called_simulated() -> None:
    assert "simulated" not in str(run(simulated=False))


def test_columns_align_wide_characters() -> None:
    table = Table("t", ["kernel", "time"], [["矩阵乘", "1 ns"], ["e\u0301", "20 ns"], ["Add", "3 ns"]], 1)
    _, *lines = table_text(table)
    assert len({width(line) for line in lines}) == 1


@pytest.mark.slow
def test_names_cannot_control_the_terminal() -> None:
    shown = str(run(names=("\x1b[2J", "a\nb", "c\rd", "\u202egnp", "n" * 500), name="\x1b[31mred\nline"))
    assert not {"\x1b", "\r", "\u202e"} & set(shown)
    assert shown.splitlines()[0].startswith(" [31mred line")


@pytest.mark.slow
def test_errors_stand_on_top() -> None:
    notes = Notes()
    notes.warning("stars_soc", "cut short")
    for name in ("one", "two", "three", "four", "five"):
        notes.error(f"{name}.csv", "is empty")
    lines = str(run(notes, failed="ValueError: no")).splitlines()
    assert lines[1:6] == [
        "The cell raised ValueError: no",
        *(f"Error: {name}.csv: is empty" for name in ("one", "two", "three")),
        "2 more errors in the notes below",
    ]


def test_code_keeps_the_costliest_lines() -> None:
    marks = {7: [1]}
    lines = [CodeLine(number, f"    f({number})", marks.get(number, []), 0, number) for number in range(1, 40)]
    code = Code("", ("NPU", "waits"), "per step", lines)
    shown = report_text(Report("run", "1 ms a step", codes=[code]), most_lines=3)
    assert [line.split()[-2] for line in shown.splitlines() if "f(" in line] == ["7", "38", "39"]
    assert shown.count("⋮") == 1


def test_gain_stands_beside_the_title() -> None:
    report = Report("run", "1 ms a step", problems=[Problem("Line 4 waits: `f()`", "Do less.", "−6.75 ms", "76 %", [])])
    line = next(line for line in report_text(report).splitlines() if "Line 4" in line)
    assert line.startswith("1  Line 4 waits: `f()`")
    assert line.endswith("−6.75 ms   76 %")
    assert len(line) == 80


def test_cost_of_profiling_is_a_sentence() -> None:
    cost = {"start_ns": 12_000_000, "code_ns": 1_100_000_000, "stop_ns": 30_000_000, "written_bytes": 2048}
    about = factories.info(overhead=cost, options={"level": 1, "stacks": True, "memory": False})
    alone = "Profiling (level 1, stacks) took 12.0 ms to start, 30.0 ms to stop, 2.00 KiB written."
    assert overhead_text(about) == alone
    about.overhead["repeat_ns"] = 1_000_000_000
    assert overhead_text(about).startswith(
        f"{alone} The cell ran twice: 1.10 s profiled, then 1.00 s unprofiled, 10.0 % more;"
    )
    about.overhead["repeat_ns"] = 1_200_000_000
    assert "then 1.20 s unprofiled, no less;" in overhead_text(about)
    assert overhead_text(factories.info()) == ""
