"""A rank of a job, as rules over all ranks see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from npuprof.advice.findings import Advice
from npuprof.analysis.accounting import Accounting


@dataclass(frozen=True)
class Member:
    """A rank of a job.

    Attributes
    ----------
    rank
        The rank's number.
    tables, accounting
        The run of the rank.
    advice
        The findings of the rank alone.
    host
        The number or name of the rank's host; None if unknown.
    """

    rank: int
    tables: Mapping[str, pd.DataFrame]
    accounting: Accounting
    advice: Advice
    host: int | str | None = None
