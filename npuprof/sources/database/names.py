"""Numbered names: ``STRING_IDS`` and the ``ENUM_*`` tables of a file.

Source: sources/RESULTS.md section 5.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeAlias

import numpy as np
import pandas as pd

from npuprof.arrays import Records
from npuprof.sources.columns.builders import ABSENT, recoded
from npuprof.sources.database.connection import Database

Change: TypeAlias = Callable[[str], str | None]
NOTHING = ("N/A", "NA", "INVALID_TYPE", "RESERVED", "RESERVE")
"""Names that mean none."""
UNNAMED = "what it names has no name; tables, links, memory and sums by names are incomplete"
"""What is wrong without the names of a table."""

_MEMORY = "ENUM_MEMORY"  # 2024 only: earlier and later versions use STRING_IDS


class TextsById:
    """The names of a table by number."""

    def __init__(self, database: Database, table: str, text: str = "name") -> None:
        numbers, texts = database.texts(table, "id", text)
        self._by_number = dict(zip(numbers.tolist(), texts, strict=True))
        self._database, self._table = database, table

    def __len__(self) -> int:
        return len(self._by_number)

    def column(self, numbers: Records, change: Change | None = None) -> pd.Categorical:
        """Build a name column: absent without a number or name, and for a name that means none.

        Parameters
        ----------
        numbers
            Numbers, :data:`~npuprof.sources.columns.builders.ABSENT` for none.
        change
            Applied once to each distinct name.
        """
        codes, used = pd.factorize(numbers)
        texts = [self.text(number) for number in used.tolist()]
        unknown = [text is None and number != ABSENT for text, number in zip(texts, used.tolist(), strict=True)]
        if any(unknown) and self._by_number:
            lost_count = int(np.array(unknown)[codes].sum())
            self._database.notes.warning(
                self._database.path.name, f"{self._table} lacks the name of a number: {UNNAMED}", lost_count
            )
        kept = [None if text is None or text in NOTHING else change(text) if change else text for text in texts]
        return recoded(codes.astype(np.int32), kept)

    def text(self, number: int) -> str | None:
        """Return the name of a number."""
        return self._by_number.get(number)

    def numbers_of(self, wanted: Callable[[str], bool]) -> dict[int, str]:
        """Return the names that satisfy the predicate, by number."""
        return {number: text for number, text in self._by_number.items() if wanted(text)}


def memory_names(database: Database, strings: TextsById, numbers: Records, words: Collection[str]) -> TextsById:
    """Return the names of a column of the memory tables that holds one of a few words, such as ``release``.

    Files of 2024 number these words in ``ENUM_MEMORY``, other files in ``STRING_IDS``, and a number may occur in both:
    the table that resolves more of the numbers to these words is returned.
    """
    enum = TextsById(database, _MEMORY)
    if not len(enum):
        return strings
    named = [
        int(np.isin(numbers, list(names.numbers_of(lambda text: text.lower() in words))).sum())
        for names in (enum, strings)
    ]
    return enum if named[0] >= named[1] else strings
