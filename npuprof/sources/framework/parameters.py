"""``torch.param_tensor_info``: what the tracer noted of modules' and optimizers' parameters.

Source: collectors/FRONTENDS.md section 2.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.ledger import STATISTICS
from npuprof.notes import Notes
from npuprof.sources.columns.nullable import recoded
from npuprof.sources.framework.files import read_content
from npuprof.sources.framework.python_calls import read_hash
from npuprof.sources.framework.text_codes import read_texts
from npuprof.sources.framework.tlv import scan

NAME = "param_tensor_info"
"""What the table is called among a run's statistics."""

_FILE, _KIND = "torch.param_tensor_info", 5
_FIELDS = {1: "module", 2: "optimizer"}


def read_parameters(folder: Path, notes: Notes) -> pd.DataFrame | None:
    """Read the parameters as they came; None where there is no such file.

    Returns
    -------
    A row for each text: ``function`` (the Python function that they belong to), ``kind`` (module or optimizer) and
    ``parameters``.
    """
    content = read_content(folder, _FILE, notes)
    if content is None:
        return None
    records = scan(content, _KIND, 8, notes, _FILE)
    keys, names = read_hash(folder, Notes())  # the calls' own reader notes what is wrong with that file
    key = records.column(0, "<u8").astype(np.uint64)
    place = np.searchsorted(keys, key)
    known = place < len(keys)
    known[known] = keys[place[known]] == key[known]
    parts = []
    for field, (at, length) in records.fields(tuple(_FIELDS), notes, _FILE).items():
        rows = np.flatnonzero(length >= 0)
        codes, texts = read_texts(content, at[rows], length[rows], notes, _FILE)
        columns = {
            "function": recoded(np.where(known, place, -1)[rows], list(names)),
            "kind": tables.categorical(np.zeros(len(rows), np.int8), [_FIELDS[field]]),
            "parameters": recoded(codes, texts),
        }
        parts.append(pd.DataFrame(columns).astype(object))
    notes.ledger.keep(_FILE, STATISTICS, len(records.start), sum(map(len, parts)))
    frame: pd.DataFrame = pd.concat(parts, ignore_index=True).astype("category")
    return frame
