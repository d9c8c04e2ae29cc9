"""Tables that show absent values as dashes, and keep them."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd

from npuprof.tables.shown_frame import ShownFrame

_TABLE = {
    "line": pd.array(["main.py:3", None], "string"),
    "share": [0.25, np.nan],
    "share_error": [0.125, 0.0],
    "host_ns": pd.array([None, 5], "Int64"),
    "count": [1, 2],
}


def test_absent_values_are_dashes_and_errors_have_their_sign() -> None:
    frame = ShownFrame(_TABLE)
    for text in (repr(frame), frame._repr_html_(), repr(frame[["line", "share", "share_error"]].head())):
        assert "–" in text
        assert "± 0.125" in text
        assert "NA" not in text
        assert "nan" not in text.lower()


def test_its_values_are_those_of_any_table() -> None:
    frame, plain = ShownFrame(_TABLE), pd.DataFrame(_TABLE)
    assert pd.DataFrame(frame).equals(plain)
    assert frame.dtypes.equals(plain.dtypes)
    assert frame["host_ns"].isna().tolist() == [True, False]
    assert pickle.loads(pickle.dumps(frame)).equals(frame)


def test_names_of_columns_may_be_anything_and_repeat() -> None:
    frame = ShownFrame([[1, None, "<b>"], [None, 2, None]], columns=["a", "a", 3])
    assert "NaN" in repr(frame)
    assert "&lt;b&gt;" in frame._repr_html_()
    assert repr(ShownFrame()) == repr(pd.DataFrame())
    assert repr(ShownFrame(plain := pd.DataFrame({"a": [1]}))) == repr(plain)
