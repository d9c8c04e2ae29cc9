"""``python -m npuprof.options`` writes the files that are generated from the specification of the options."""

from __future__ import annotations

from pathlib import Path

from npuprof.options import reference

_PACKAGE = Path(__file__).parent

(_PACKAGE / "keywords.py").write_text(reference.keywords(), encoding="utf-8")
(_PACKAGE.parents[1] / "notebooks" / "reference" / "options.md").write_text(reference.page(), encoding="utf-8")
