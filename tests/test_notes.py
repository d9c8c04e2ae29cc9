"""Notes: repeated ones are counted, endless ones are bounded."""

from __future__ import annotations

from npuprof.notes import Notes


def test_a_repeated_note_is_counted() -> None:
    notes = Notes()
    notes.warning("hbm.data", "a cut record was left out")
    notes.warning("hbm.data", "a cut record was left out", 2)
    notes.info("aicpu.data", "not decoded")
    assert notes.to_frame().to_numpy().tolist() == [
        ["warning", "hbm.data", "a cut record was left out", 3],
        ["info", "aicpu.data", "not decoded", 1],
    ]


def test_a_million_different_notes_stay_few() -> None:
    notes = Notes()
    for number in range(5000):
        notes.error("file", f"line {number}")
    assert len(notes) == 1001
    assert notes.to_frame()["count"].sum() == 5000


def test_notes_survive_a_frame_and_joining() -> None:
    first, second = Notes(), Notes()
    first.info("a", "x")
    second.info("a", "x")
    second.error("b", "y")
    first.extend(second)
    assert Notes.from_frame(first.to_frame()).to_frame().equals(first.to_frame())
    assert first.to_frame()["count"].tolist() == [2, 1]
