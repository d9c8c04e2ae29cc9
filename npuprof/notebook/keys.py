"""Keys pressed in npuprof's outputs do not reach the notebook, where ``d d`` would delete a cell: see ``keys.js``.

What names a cell there is a link to it: see ``cells.js``. Names of bars stay in view: see ``figures/labels.js``.
"""

from __future__ import annotations

from pathlib import Path

import anywidget

from npuprof.figures.embed import label_script

_HERE = Path(__file__).parent
_SCRIPT = label_script() + "".join((_HERE / name).read_text(encoding="utf-8") for name in ("cells.js", "keys.js"))


class _Keys(anywidget.AnyWidget):
    """Adds the listeners to each page of the kernel, as soon as the page knows of it: it is never displayed."""

    _esm = _SCRIPT


_keys: _Keys | None = None


def keep_keys() -> None:
    """Keep the keys of all outputs with the class :data:`npuprof.words.texts.KEYS` from the pages' notebooks."""
    global _keys
    if _keys is None or _keys.comm is None:  # closed, as by `Widget.close_all`
        _keys = _Keys()
