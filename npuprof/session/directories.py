"""The private directory of a recording: made before the start, removed with a start that failed."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from npuprof import atomic
from npuprof.errors import CollectorError
from npuprof.options import Options

_ELSEWHERE = "choose another directory with --output"


def new_directory(options: Options) -> Path:
    """Make the private directory of a new recording.

    Raises
    ------
    CollectorError
        If the output directory cannot be written to.
    """
    stamp = time.strftime("%Y%m%d_%H%M%S", time.localtime())
    label = re.sub(r"[^\w.-]+", "_", options.name) or "run"
    try:
        options.output.mkdir(mode=0o700, parents=True, exist_ok=True)
        for attempt in range(1000):
            directory = options.output.absolute() / f"{label}_{stamp}_{os.getpid()}_{attempt:03d}"
            with suppress(FileExistsError):
                directory.mkdir(mode=0o700)
                return directory
    except OSError as error:
        told = atomic.reason(error, options.output.absolute(), elsewhere=_ELSEWHERE)
        raise CollectorError(f"no recording can be made in {options.output}: {told}") from error
    raise CollectorError(f"{options.output} holds a thousand recordings of this second: choose another --output")


def remove_traces(directory: Path) -> None:
    """Remove the directory that :func:`new_directory` made for a start that failed, with all that was written there."""
    shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def told_of_writing(directory: Path) -> Iterator[None]:
    """Raise what the system says of writing in the block as an error that says what to do.

    A front end that fails says nothing of a full disk: what is lacking there is told before its own words.
    """
    try:
        yield
    except CollectorError as error:
        if lacking := atomic.lacking(directory, elsewhere=_ELSEWHERE):
            raise CollectorError(f"nothing can be written to {directory}: {lacking} ({error})") from error
        raise
    except OSError as error:
        told = atomic.reason(error, directory, elsewhere=_ELSEWHERE)
        raise CollectorError(f"nothing can be written to {directory}: {told}") from error
