from __future__ import annotations

import re
import unicodedata

import pytest

from npuprof.analysis.summary import summarise
from npuprof.exports.text import overhead_text, summary_text
from npuprof.tables.info import Info
from npuprof.tables.notes import Notes
from tests import factories


def written(
    notes: Notes | None = None, names: tuple[str, ...] = factories.KERNELS, kernels: int = 600, **info: object
) -> str:
    about = factories.info(**info)
    run = factories.profile(kernels, kernel_names=names)
    return summary_text(summarise(run, about), about, (notes or Notes()).to_frame(), factories.advice(run, about))


@pytest.mark.slow
def test_the_first_lines_name_the_run_and_its_device() -> None:
    first, second, *_ = written().splitlines()

    assert first == "npuprof · training step · SIMULATED NPU"
    assert second == "Ascend 910B2 · device 0 · level 1 · collector simulator · started 2025-11-20 00:53:20 UTC"


@pytest.mark.slow
def test_a_real_run_is_not_called_simulated() -> None:
    assert "SIMULATED" not in written(simulated=False)


@pytest.mark.slow
def test_key_figures_and_tables_are_there() -> None:
    text = written()

    assert re.search(r"device idle: +[\d.]+ ms \([\d.]+ % of 3 steps\)", text)
    assert "5 longest kernels" in text
    assert "5 kernels with the most time in all" in text
    assert "2 CANN calls with the most time" in text
    assert "aclrtMemcpyAsync" in text


@pytest.mark.slow
def test_one_kernel_is_not_called_several() -> None:
    text = written(names=("MatMul",), kernels=1)

    assert "The longest kernel\n" in text
    assert "1 kernel with the most time in all" in text
    assert "1 kernels" not in text


@pytest.mark.slow
def test_columns_are_aligned_even_with_wide_and_combining_characters() -> None:
    lines = written(names=("矩阵乘", "e\u0301", "Add", "LayerNorm", "T")).splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("kernel ") and "of kernel time" in line)
    rows = [lines[head], *lines[head + 2 : head + 7]]

    assert len({_columns(row) for row in rows}) == 1
    assert all(row.endswith((" %", "of kernel time")) for row in rows)


@pytest.mark.slow
def test_names_cannot_control_the_terminal() -> None:
    text = written(names=("\x1b[2J", "a\nb", "c\rd", "\u202egnp", "n" * 500))

    assert "\x1b" not in text
    assert "\r" not in text
    assert "\u202e" not in text
    assert "a b" in text
    assert max(map(len, text.splitlines())) <= 300


@pytest.mark.slow
def test_a_failed_cell_is_said() -> None:
    assert "The profiled code raised ValueError: no" in written(failed="ValueError: no")


@pytest.mark.slow
def test_notes_are_listed_the_gravest_first_and_counted_when_many() -> None:
    notes = Notes()
    notes.info("host", "fine")
    notes.error("memory", "asked for, not there")
    notes.warning("stars_soc", "cut short", count=3)

    lines = written(notes=notes).splitlines()

    assert lines[-4:] == [
        "Notes (3)",
        "  error: memory: asked for, not there",
        "  warning: stars_soc: cut short (3 times)",
        "  info: host: fine",
    ]

    for number in range(50):
        notes.info("host", f"note {chr(97 + number // 26)}{chr(97 + number % 26)}")  # alike but for a number are one
    assert written(notes=notes).splitlines()[-1] == "  and 33 more in run.notes"


def test_the_first_errors_are_below_the_title() -> None:
    notes = Notes()
    notes.warning("stars_soc", "cut short")
    for name in ("one", "two", "three", "four", "five"):
        notes.error(f"{name}.csv", "is empty")

    lines = written(notes=notes, kernels=1).splitlines()

    assert lines[2:6] == [
        *(f"Error: {name}.csv: is empty" for name in ("one", "two", "three")),
        "2 more errors in the notes below",
    ]


def test_what_is_not_known_is_a_dash() -> None:
    text = summary_text(
        summarise(factories.all_tables(), Info()),
        Info(),
        Notes().to_frame(),
        factories.advice(factories.all_tables(), Info()),
    )

    assert [line.split() for line in text.splitlines() if line.startswith(("wall", "kernels"))] == [
        ["wall", "time:", "–"],
        ["kernels:", "–"],
    ]
    assert " 0" not in text


def _columns(line: str) -> int:
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


def test_what_profiling_cost_is_a_sentence() -> None:
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
