"""Columns of text become the same integers in Arrow's memory as text by text."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuprof.sources.columns import arrow_decimals
from npuprof.sources.columns.arrow_decimals import scaled_column
from npuprof.sources.columns.decimals import scaled

_plain = st.from_regex(r"-?[0-9]{1,19}(\.[0-9]{0,3})?", fullmatch=True)
_odd = st.sampled_from(
    ["1e5", "1E-3", "+5", ".5", "5.", "-.5", "nan", "inf", "", "-", "0x1", "1_0", "9" * 39, "0.12345"]
)


@given(
    st.lists(st.none() | _plain, max_size=8) | st.lists(st.none() | _plain | _odd | st.text(max_size=4), max_size=8),
    st.sampled_from([1, 1000, 1_000_000, 1024]),
    st.booleans(),
)
def test_both_ways_agree(texts: list[str | None], multiplier: int, exponents: bool) -> None:
    whole = pa.array(["7", *texts, "7"], pa.string())
    values, valid = scaled_column(whole[1 : 1 + len(texts)], multiplier, exponents=exponents)
    exact, known = scaled(["" if text is None else text for text in texts], multiplier, exponents=exponents)
    assert (values.tolist(), valid.tolist()) == (exact.tolist(), known.tolist())


@pytest.mark.parametrize(
    ("texts", "multiplier"), [(["1763600000000000.123", None, "-5"], 1000), (["4294967295", "0"], 1), (["1.5"], 1000)]
)
def test_what_a_vendor_writes_goes_the_short_way(
    monkeypatch: pytest.MonkeyPatch, texts: list[str | None], multiplier: int
) -> None:
    expected = [0 if text is None else round(float(text) * multiplier, 6) for text in texts if text != texts[0]]
    monkeypatch.setattr(arrow_decimals, "scaled", None)
    values, valid = scaled_column(pa.array(texts, pa.string()), multiplier)
    assert values.tolist()[1:] == expected
    assert valid.tolist() == [text is not None for text in texts]


def test_a_time_of_day_keeps_its_last_digit() -> None:
    values, _ = scaled_column(pa.array(["1763600000000000.123"], pa.string()), 1000)
    assert values.tolist() == [1763600000000000123]
