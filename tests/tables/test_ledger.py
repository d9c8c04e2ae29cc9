"""The account of a reader: what balances is silent, and every row that nobody accounted for is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuprof.tables.ledger import STATISTICS, Ledger
from npuprof.tables.notes import Notes


def test_kept_used_and_lost_rows_balance() -> None:
    notes = Notes()
    notes.ledger.read("kernel_details.csv", 10)
    notes.ledger.keep("kernel_details.csv", "kernels", 6)
    notes.ledger.use("kernel_details.csv", 3)
    notes.leave_out("kernel_details.csv", "a row has no start", 1, affects="kernels")
    notes.settle({"kernels": range(6)})
    assert notes.to_frame().iloc[:, :4].to_numpy().tolist() == [
        ["warning", "kernel_details.csv", "a row has no start; left out; counts and sums of kernels are too low", 1]
    ]
    assert notes.ledger.to_frame().to_numpy().tolist() == [["kernel_details.csv", 10, 6, 3, 1]]


@pytest.mark.slow
@given(read=st.integers(0, 50), kept=st.integers(0, 50), used=st.integers(0, 50))
def test_every_row_without_an_account_is_reported(read: int, kept: int, used: int) -> None:
    notes = Notes()
    notes.ledger.read("input", read)
    notes.ledger.keep("input", "tasks", kept)
    notes.ledger.use("input", used)
    notes.settle({"tasks": range(kept)})
    told = notes.to_frame()
    assert told["count"].sum() == abs(read - kept - used)
    assert (told["severity"] == "warning").all()


@pytest.mark.slow
@given(made=st.integers(0, 50), there=st.integers(0, 50))
def test_rows_that_a_table_lost_or_gained_after_reading_are_reported(made: int, there: int) -> None:
    notes = Notes()
    notes.ledger.read("input", 1)
    notes.ledger.keep("input", "counters", 1, made)
    notes.settle({"counters": range(there)})
    assert notes.to_frame()["count"].sum() == abs(made - there)


def test_missing_table_is_reported() -> None:
    notes = Notes()
    notes.ledger.read("input", 5)
    notes.ledger.keep("input", "kernels", 2)
    notes.ledger.keep("input", STATISTICS, 3)
    notes.settle({})
    assert notes.to_frame()[["source", "count"]].to_numpy().tolist() == [["kernels", 2]]


def test_rows_that_another_input_shows_instead_are_used() -> None:
    ledger = Ledger()
    ledger.read("trace_view.json", 4)
    ledger.keep("trace_view.json", "marks", 4)
    ledger.replace("marks")
    ledger.read("msprof_tx.csv", 5)
    ledger.keep("msprof_tx.csv", "marks", 5)
    assert not list(ledger.imbalances({"marks": range(5)}))
    assert ledger.to_frame()["used"].tolist() == [4, 0]


def test_failing_input_is_left_out() -> None:
    notes = Notes()
    notes.ledger.read("a.csv", 7)
    notes.ledger.keep("a.csv", "memory", 2)
    notes.fail("a.csv", "a.csv has no column 'Device'")
    notes.settle({"memory": range(2)})
    assert notes.to_frame()[["severity", "source", "count"]].to_numpy().tolist() == [["error", "a.csv", 1]]
    assert notes.ledger.to_frame()["left_out"].tolist() == [5]


@pytest.mark.slow
def test_ledgers_add_up_and_inputs_are_bounded() -> None:
    first, second = Notes(), Notes()
    for notes in (first, second):
        for number in range(10_005):
            notes.ledger.read(f"table {number}", 1)
            notes.ledger.keep(f"table {number}", "tasks", 1)
    first.extend(second)
    frame = first.ledger.to_frame()
    assert len(frame) == 10_001
    assert frame["rows"].sum() == frame["in_tables"].sum() == 20_010
    assert not list(first.ledger.imbalances({"tasks": range(20_010)}))
