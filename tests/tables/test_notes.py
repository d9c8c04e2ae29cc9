"""Notes: repeated ones are counted, endless ones are bounded."""

from __future__ import annotations

from npuprof.tables.notes import ANY, Notes


def test_a_repeated_note_is_counted() -> None:
    notes = Notes()
    notes.warning("hbm.data", "a cut record was left out")
    notes.warning("hbm.data", "a cut record was left out", 2)
    notes.info("aicpu.data", "not decoded")
    assert notes.to_frame().iloc[:, :4].to_numpy().tolist() == [
        ["warning", "hbm.data", "a cut record was left out", 3],
        ["info", "aicpu.data", "not decoded", 1],
    ]


def test_a_million_different_notes_stay_few() -> None:
    notes = Notes()
    for number in range(5000):
        notes.error("file", f"line {number}")
    assert len(notes) == 1001
    assert notes.to_frame()["count"].sum() == 5000


def test_many_notes_that_differ_in_their_numbers_alone_are_one_row() -> None:
    notes = Notes()
    notes.warning("first", "of another kind")
    for process in range(60):
        notes.warning(f"{process}-Memory.data", f"{process * 7} bytes are not decoded", 2)
    for rank in range(5):
        notes.info(f"rank {rank}", "few enough to be seen one by one")
    assert notes.to_frame().iloc[:, :4].to_numpy().tolist() == [
        ["warning", "first", "of another kind", 1],
        ["warning", "0-Memory.data", "0 bytes are not decoded (and 59 notes like it)", 120],
        *(["info", f"rank {rank}", "few enough to be seen one by one", 1] for rank in range(5)),
    ]


def test_notes_survive_a_frame_and_joining() -> None:
    first, second = Notes(), Notes()
    first.info("a", "x")
    second.info("a", "x")
    second.error("b", "y")
    first.extend(second)
    assert Notes.from_frame(first.to_frame()).to_frame().equals(first.to_frame())
    assert first.to_frame()["count"].tolist() == [2, 1]


def test_missing_values_survive_operations() -> None:
    notes = Notes()
    notes.leave_out("a.csv", "a row has no time", 3, affects=("kernels", "api"))
    notes.leave_out("a.csv", "a row has no time", 4, affects=("kernels", "api"))
    notes.warning("b.json", "it was cut", lacks=ANY)
    notes.leave_out("a.csv", "a row is a total", 4, affects=("kernels",), severity="info")
    for number in range(9):
        notes.leave_out(f"rank {number}", "a row is cut", 1, affects=("memory",))
    joined = Notes()
    joined.extend(notes)
    joined.rewrite(str)
    frame = joined.to_frame()
    assert frame["lacks"].tolist() == ["api kernels", "any", "", "memory"]
    assert frame["missing_rows"].fillna(-1).tolist() == [7, -1, -1, 9]
    assert Notes.from_frame(frame).to_frame().equals(frame)
    earlier = Notes.from_frame(frame[["severity", "source", "message", "count"]]).to_frame()
    assert set(earlier["lacks"]) == {""}
