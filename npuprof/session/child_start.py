"""What the start-up hook of a child calls: see :mod:`npuprof.session.child`."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from npuprof.machine.environment import OF_WORKERS
from npuprof.session import child
from npuprof.session.session import Session

_TITLE = "the session of this rank"


def front_end_imported(folder: str, module: str) -> None:
    """Begin the session of this process after the import of a front end; never raises an error.

    `folder` is that of the job; empty if no cell is profiled.
    """
    with suppress(Exception):
        control = os.environ.get(OF_WORKERS)
        child.begin(
            Path(folder) if folder else None,
            module,
            lambda options: Session(options, title=_TITLE),
            Path(control) if control else None,
        )
