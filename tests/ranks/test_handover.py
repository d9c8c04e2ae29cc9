"""What one process hands to another arrives as it was, or not at all."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pandas as pd
import pytest

from npuprof.notes import Notes
from npuprof.ranks.handover import packed, receive, send
from npuprof.sources.base import Decoded
from tests import factories


def _sent(value: object) -> bytes:
    stream = io.BytesIO()
    send(stream, packed(value))
    return stream.getvalue()


def test_a_run_arrives_unchanged_and_may_be_written_to() -> None:
    notes = Notes()
    notes.warning("a", "b", 3)
    decoded = Decoded(factories.all_tables(**factories.profile(5)), factories.info(), notes)
    decoded.statistics["mixed"] = pd.DataFrame({"a": [1, "x", None]}, dtype=object)
    arrived: Decoded = receive(io.BytesIO(_sent(decoded)))
    for name, frame in decoded.tables.items():
        pd.testing.assert_frame_equal(arrived.tables[name], frame)
    pd.testing.assert_frame_equal(arrived.statistics["mixed"], decoded.statistics["mixed"])
    assert arrived.info == decoded.info
    assert arrived.notes.to_frame().equals(notes.to_frame())
    kernels = arrived.tables["kernels"]
    kernels.loc[0, "start_ns"] = 7
    assert kernels["start_ns"].iloc[0] == 7


def test_arrays_travel_beside_the_pickle() -> None:
    array = np.arange(100_000)
    head, data = packed({"a": array})
    assert head.nbytes < 1000
    assert data.nbytes == array.nbytes


@pytest.mark.parametrize("cut", [0, 3, 10, 40, -1])
def test_a_parcel_that_was_cut_off_is_none(cut: int) -> None:
    whole = _sent({"a": np.arange(1000)})
    with pytest.raises(EOFError):
        receive(io.BytesIO(whole[:cut]))


def test_what_cannot_be_pickled_is_told_before_anything_is_sent() -> None:
    with pytest.raises((pickle.PicklingError, AttributeError, TypeError)):
        packed(lambda: None)
