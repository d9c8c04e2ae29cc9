from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuprof.errors import NpuprofError, OptionsError
from npuprof.profiles.annotations import FILE_NAME, _row
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from tests import factories

_START = factories.START_NS
_GOOD = '{"start_ns": 5, "duration_ns": 0, "text": "x"}'
_HOSTILE = "<img src=x onerror=alert(1)>"


def _run(directory: Path | None = None) -> Profile:
    return Profile(Decoded(factories.profile(20), factories.info(recording=directory), Notes()))


def test_notes_are_a_table_and_kept_with_the_recording(tmp_path: Path) -> None:
    (tmp_path / "recording.json").write_text("{}")
    run = _run(tmp_path)
    assert run.annotations.columns.tolist() == ["start_ns", "duration_ns", "text"]
    run.annotate("later", start=_START + 9, end=_START + 12)
    run.annotate(_HOSTILE, start=_START)
    again = _run(tmp_path).annotations
    assert again.to_numpy().tolist() == [[_START, 0, _HOSTILE], [_START + 9, 3, "later"]]
    assert again.equals(run.annotations)
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600
    run.annotate("", start=_START)
    assert _run(tmp_path).annotations["text"].tolist() == ["later"]


def test_bad_numbers_of_a_row_are_noted(tmp_path: Path) -> None:
    run = _run()
    kernel = run.kernels.iloc[3]
    run.annotate("half \ud800 of a pair", start=kernel["start_ns"], end=kernel["start_ns"] + kernel["duration_ns"])
    note = [kernel["start_ns"], kernel["duration_ns"], "half \\ud800 of a pair"]
    assert run.annotations.to_numpy().tolist() == [note]
    assert run.to_html(tmp_path / "run.html").stat().st_size


def test_nothing_is_written_to_results_of_others(tmp_path: Path) -> None:
    run = _run(tmp_path)
    run.annotate("mine", start=_START)
    assert list(tmp_path.iterdir()) == []
    assert run.annotations["text"].tolist() == ["mine"]


@pytest.mark.parametrize(
    ("content", "known"),
    [
        ("", 0),
        ("[]", 0),
        ('{"notes": 3}', 0),
        ('{"notes": [1, {"text": "x"}]}', 0),
        ("{" * 9_000, 0),
        (f'{{"notes": [{_GOOD}, {_GOOD.replace("5", "1e300")}]}}', 1),
    ],
)
def test_a_damaged_file_has_the_notes_that_can_be_read(tmp_path: Path, content: str, known: int) -> None:
    (tmp_path / "recording.json").write_text("{}")
    (tmp_path / FILE_NAME).write_text(content)
    assert len(_run(tmp_path).annotations) == known


_ANY = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=3)


@given(st.fixed_dictionaries({"start_ns": _ANY, "duration_ns": _ANY, "text": _ANY}) | _ANY)
def test_only_ranges_of_64_bits_are_notes(note: Any) -> None:
    if (row := _row(note)) is not None:
        start, length, text = row
        assert 0 <= start <= start + length < 2**63
        assert isinstance(text, str)


@pytest.mark.parametrize("how", [{"start": -1}, {"start": 5, "end": 3}, {"start": 2**63}])
def test_what_is_no_range_is_refused(how: dict[str, int]) -> None:
    run = _run()
    with pytest.raises(OptionsError, match="on no range of time"):
        run.annotate("x", **how)
    with pytest.raises(OptionsError, match="at most 2,000 characters"):
        run.annotate("x" * 3_000, start=1)
    assert len(run.annotations) == 0


def test_unsaved_note_lasts_while_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "recording.json").write_text("{}")
    run = _run(tmp_path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("npuprof.files.atomic.write_text", full)
    with pytest.raises(NpuprofError, match="No space left on device"):
        run.annotate("x", start=_START)
    assert run.annotations["text"].tolist() == ["x"]
