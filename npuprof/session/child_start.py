"""What the start-up hook of a child calls: see :mod:`npuprof.session.child`."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from npuprof.session import child
from npuprof.session.session import Session

_TITLE = "the session of this rank"


def front_end_imported(folder: str, module: str) -> None:
    """Begin the session of this process after the import of a front end; never raises an error."""
    with suppress(Exception):
        child.begin(Path(folder), module, lambda options: Session(options, title=_TITLE))
