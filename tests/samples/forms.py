"""Files of the samples that are of one form."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path


def forms(files: Iterable[Path]) -> list[list[Path]]:
    """Return files, those of one form together, the largest of each form first.

    Of one form are tables of the same name and columns, and other files of the same name in the same folder or in
    that of another rank, whatever the numbers in their names.
    """
    found: dict[tuple[str, str], list[Path]] = {}
    for file in sorted(files, key=lambda path: (-path.stat().st_size, path)):
        place = re.sub(r"rank_?\d+", "rank", str(file.parent))
        if file.suffix == ".csv":
            with file.open(encoding="utf-8", errors="replace") as opened:
                place = opened.readline()
        found.setdefault((re.sub(r"\d+", "", file.name), place), []).append(file)
    return list(found.values())
