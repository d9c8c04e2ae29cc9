"""A progress bar below the cell that is loading: one output, updated in place and cleared at the end."""

from __future__ import annotations

from html import escape
from typing import Any

from npuprof.progress import Progress

_EMPTY = {"text/plain": "", "text/html": ""}


class CellBar:
    """An output of a cell; file names are escaped."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, progress: Progress) -> None:
        """Show the progress, always in the same output."""
        self._put(_bundle(progress))

    def close(self) -> None:
        """Clear the output."""
        self._put(_EMPTY)

    def _put(self, bundle: dict[str, str]) -> None:
        from IPython.display import display

        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)


def cell_display() -> CellBar | None:
    """Return a progress bar below the running cell; None outside of a kernel."""
    from IPython import get_ipython

    shell = get_ipython()
    return CellBar() if getattr(shell, "kernel", None) is not None else None


def _bundle(progress: Progress) -> dict[str, str]:
    value = f' value="{progress.fraction:.3f}"' if progress.total > 0 else ""
    return {"text/plain": str(progress), "text/html": f"<progress{value}></progress> {escape(str(progress))}"}
