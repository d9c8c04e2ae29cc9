"""The domains of markers whose front end has none: kept by the recording, and given back to the table."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from npuprof.notes import Notes
from npuprof.recording import FILE_NAME, stored_message


def assign(marks: pd.DataFrame, domains: Sequence[tuple[str, str, int]], notes: Notes) -> pd.DataFrame:
    """Set the domains of markers to those that their calls named.

    Parameters
    ----------
    marks
        The table ``marks``, ordered by ``start_ns``.
    domains
        Message, domain and place of each call with a domain; the place counts from 0 among all markers of the
        message.
    notes
        Told how many calls found no marker.

    Returns
    -------
    pandas.DataFrame
        The table with ``domain`` filled in for the markers that were found.
    """
    kept = marks["message"].astype(object).map(lambda message: stored_message(str(message)))
    rows_of = kept.groupby(kept).indices
    named = marks["domain"].astype(object)
    lost = 0
    for message, domain, place in domains:
        rows = rows_of.get(stored_message(message), ())
        if 0 <= place < len(rows):
            named.iloc[rows[place]] = domain
        else:
            lost += 1
    notes.ledger.read(FILE_NAME, len(domains))
    notes.ledger.use(FILE_NAME, len(domains) - lost)
    notes.leave_out(FILE_NAME, "a marker with a domain was not recorded by the front end", lost, affects="marks")
    result: pd.DataFrame = marks.assign(domain=named.astype("category"))
    return result
