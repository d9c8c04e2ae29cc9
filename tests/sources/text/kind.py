"""What is known of one kind of CSV file of a result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Kind:
    """A kind of file.

    Attributes
    ----------
    module
        The file's name without stamp and suffix.
    head, row
        The line of column names, and one row.
    table
        The table that it fills; empty for a frame of `statistics` that is called as the module.
    values
        Some values of the one row that come of it, by column. A whole number must be an integer there.
    fronts
        Which front ends write it: ``torch_npu``, ``mindspore``, ``msprof``.
    """

    module: str
    head: str
    row: str
    values: dict[str, Any] = field(default_factory=dict)
    table: str = ""
    fronts: tuple[str, ...] = ("msprof",)


BOTH, ALL, TORCH = ("torch_npu", "msprof"), ("torch_npu", "mindspore", "msprof"), ("torch_npu",)
MINDSPORE = ("mindspore",)
