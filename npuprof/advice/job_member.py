"""A rank of a job, as rules over all ranks see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from npuprof.advice.findings import Advice
from npuprof.analysis.accounting import Accounting


@dataclass(frozen=True)
class Member:
    """A rank of a job."""

    rank: int  # the rank's number
    # tables, accounting: the run of the rank.
    tables: Mapping[str, pd.DataFrame]
    accounting: Accounting
    advice: Advice  # the findings of the rank alone
    host: int | str | None = None  # the number or name of the rank's host; None if unknown
