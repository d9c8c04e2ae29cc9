"""Let a failed check tell its values, although it stands in no test module."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(
    *(f"tests.sources.truth.{name}" for name in ("facts", "csv_files", "timelines", "databases"))
)
