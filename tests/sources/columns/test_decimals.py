"""Decimal text becomes exact integers, whatever its form."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal, localcontext

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuprof.sources.columns import decimals as module
from npuprof.sources.columns.decimals import MB_TO_BYTES, US_TO_NS, column_ns, scaled, scaled_column, scaled_one

digits = st.text("0123456789", max_size=16)
decimals = st.builds(
    lambda sign, whole, point, part: f"{sign}{whole or '0'}{point}{part if point else ''}",
    st.sampled_from(["", "-"]),
    digits,
    st.sampled_from(["", "."]),
    st.text("0123456789", max_size=15),
)
_odd = st.sampled_from(
    ["1e5", "1E-3", "+5", ".5", "5.", "-.5", "nan", "inf", "", "-", "0x1", "1_0", "9" * 39, "-9223372036854775808"]
)


def by_decimal(text: str, multiplier: int) -> int:
    with localcontext() as context:
        context.prec = 80
        return int((Decimal(text) * multiplier).quantize(Decimal(1), rounding=ROUND_HALF_UP))


@pytest.mark.slow
@given(st.lists(decimals, min_size=1), st.sampled_from([1, 1000, 1_000_000, 1 << 20]))
def test_any_decimals_are_exact(texts: list[str], multiplier: int) -> None:
    values, valid = scaled(texts, multiplier)
    for text, value, good in zip(texts, values.tolist(), valid.tolist(), strict=True):
        exact = by_decimal(text, multiplier)
        assert good == (abs(exact) < 1 << 63)
        assert value == (exact if good else 0)


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(0, 10**18 - 1), st.integers(0, 10**12 - 1)), min_size=1),
    st.integers(1, 18),
    st.integers(0, 12),
    st.sampled_from([1, 1000, 1 << 20]),
)
def test_decimals_of_one_form_are_exact(
    numbers: list[tuple[int, int]], width: int, places: int, multiplier: int
) -> None:
    texts = [
        f"{whole % 10**width:0{width}d}" + (f".{part % 10**places:0{places}d}" if places else "")
        for whole, part in numbers
    ]
    values, valid = scaled(texts, multiplier)
    exact = [by_decimal(text, multiplier) for text in texts]
    assert valid.tolist() == [one < 1 << 63 for one in exact]
    assert values.tolist() == [one if one < 1 << 63 else 0 for one in exact]


@given(
    st.lists(st.sampled_from(["12.5", "3\n.5", "1\n25", "1.2\n", "12,5", "12.5\n", "1é.5", "9.9", "-1.5"]), min_size=1)
)
def test_non_numbers_are_found_among_equal_lengths(texts: list[str]) -> None:
    values, valid = scaled(texts, US_TO_NS)
    alone = [scaled_one(text, US_TO_NS) for text in texts]
    assert [value if good else None for value, good in zip(values.tolist(), valid.tolist(), strict=True)] == alone


@pytest.mark.slow
@given(st.text(max_size=50))
def test_any_text_is_read_or_refused_alike_alone_and_in_company(text: str) -> None:
    values, valid = scaled([text, "1.5"], US_TO_NS)
    alone = scaled_one(text, US_TO_NS)
    assert (int(values[0]) if valid[0] else None) == alone
    assert (values[1], valid[1]) == (1500, True)


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1736408883674584.732", 1736408883674584732),
        ("1695115378713661", 1695115378713661000),
        ("1736408883674584.7", 1736408883674584700),
        ("0.0005", 1),
        ("-0.0005", -1),
        (".5", 500),
        ("1.", 1000),
        ("1e-05", 0),
        ("9223372036854775.807", (1 << 63) - 1),
    ],
)
def test_known_times(text: str, ns: int) -> None:
    values, valid = scaled([text], US_TO_NS)
    assert (values.tolist(), valid.tolist()) == ([ns], [True])


@pytest.mark.parametrize(
    "text", ["", " ", "-", ".", "1.2.3", "0x10", "nan", "1\0", "١", "1e999", "9223372036854775.808"]
)
def test_what_is_no_number_is_reported(text: str) -> None:
    values, valid = scaled([text, "2"], US_TO_NS)
    assert (values.tolist(), valid.tolist()) == ([0, 2000], [False, True])


def test_a_time_that_went_through_a_spreadsheet_is_refused() -> None:
    assert scaled(["1.69512E+15"], US_TO_NS, exponents=False)[1].tolist() == [False]


def test_megabytes_become_whole_bytes() -> None:
    assert scaled(["2109.6015625"], MB_TO_BYTES)[0].tolist() == [2212077568]


def test_json_values_of_every_type_become_ns() -> None:
    values, valid = column_ns(["1.5", 2, 3.25, None, "x"])
    assert (values.tolist(), valid.tolist()) == ([1500, 2000, 3250, 0, 0], [True, True, True, False, False])


@pytest.mark.slow
@given(
    st.lists(st.none() | decimals, max_size=8)
    | st.lists(st.none() | decimals | _odd | st.text(max_size=4), max_size=8),
    st.sampled_from([1, 1000, 1_000_000, 1024, MB_TO_BYTES]),
    st.booleans(),
)
def test_a_part_of_a_column_has_the_values_of_its_texts(
    texts: list[str | None], multiplier: int, exponents: bool
) -> None:
    whole = pa.array(["7", *texts, "7"], pa.string())
    values, valid = scaled_column(whole[1 : 1 + len(texts)], multiplier, exponents=exponents)
    alone = [None if text is None else scaled_one(text, multiplier, exponents=exponents) for text in texts]
    assert valid.tolist() == [exact is not None for exact in alone]
    assert values.tolist() == [exact or 0 for exact in alone]


@pytest.mark.parametrize(
    ("texts", "multiplier", "expected"),
    [
        (["1763600000000000.123", None, "-5"], 1000, [1763600000000000123, 0, -5000]),
        (["4294967295", "0"], 1, [4294967295, 0]),
        (["1.5", "0.0005", "-12.34567"], 1000, [1500, 1, -12346]),
        (["2109.6015625", "7"], MB_TO_BYTES, [2212077568, 7 << 20]),
    ],
)
def test_plain_decimals_are_left_to_arrow(
    monkeypatch: pytest.MonkeyPatch, texts: list[str | None], multiplier: int, expected: list[int]
) -> None:
    monkeypatch.setattr(module, "scaled_one", None)
    values, valid = scaled_column(pa.array(texts, pa.string()), multiplier)
    assert values.tolist() == expected
    assert valid.tolist() == [text is not None for text in texts]


@pytest.mark.parametrize("text", ["1" + "0" * 400, "-1" + "0" * 44, "9" * 39, "1" + "0" * 38 + ".5"])
def test_a_number_of_more_digits_than_a_decimal_has_is_none(text: str) -> None:
    values, valid = scaled([text, "7.5"], 1000)
    assert (values.tolist(), valid.tolist()) == ([0, 7500], [False, True])
