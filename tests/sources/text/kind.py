"""What is known of one kind of CSV file of a result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from npuprof.sources.text.csv_kinds import KINDS as CSV_KINDS
from npuprof.sources.text.csv_kinds import FrontEnd


@dataclass(frozen=True)
class Kind:
    """A kind of file.

    Attributes
    ----------
    module
        The file's name without stamp and suffix.
    head, row
        The line of column names, and one row.
    values
        Some values of the one row that come of it, by column. A whole number must be an integer there.
    fronts
        Which front ends write it: ``torch_npu``, ``mindspore``, ``msprof``.
    """

    module: str
    head: str
    row: str
    values: dict[str, Any] = field(default_factory=dict)
    fronts: tuple[FrontEnd, ...] = ("msprof",)

    @property
    def table(self) -> str:
        """The table that it fills; empty for a frame of `statistics` that is called as the module."""
        return next(kind.table for kind in CSV_KINDS if self.module in kind.names)


BOTH: tuple[FrontEnd, ...] = ("torch_npu", "msprof")
ALL: tuple[FrontEnd, ...] = ("torch_npu", "mindspore", "msprof")
TORCH: tuple[FrontEnd, ...] = ("torch_npu",)
MINDSPORE: tuple[FrontEnd, ...] = ("mindspore",)
