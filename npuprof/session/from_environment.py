"""A session that the environment asks for: it begins when npuprof is imported and ends with the process.

Where a framework is installed and not imported yet, it begins when that is imported: only then is it known which
front end the process needs.

``NPUPROF_OPTIONS`` holds the JSON form of :class:`npuprof.options.Options`. Where it is not set,
``MS_PROFILER_OPTIONS`` is understood as MindSpore documents it, unless MindSpore is installed: that starts its own
profiler by this variable when it is imported, and a process has one.

Whatever is wrong with a variable, or with collecting, is told on standard error: neither the import nor the program
fails because of it. npuprof's own command and workers are not collected from.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from npuprof.collectors import registry
from npuprof.machine.environment import ASKING
from npuprof.session.awaited_import import AwaitedImport
from npuprof.texts import plain_line

if TYPE_CHECKING:
    from npuprof.options import Options
    from npuprof.session.session import Session


_VARIABLE, _OF_MINDSPORE = ASKING
_COMMAND = "npuprof"  # the command that npuprof installs

_logger = logging.getLogger("npuprof")
_session: Session | None = None
_awaited: AwaitedImport | None = None


def options(environ: Mapping[str, str]) -> tuple[Options | None, str]:
    """Read what an environment asks for; what is wrong or was changed is logged.

    Returns
    -------
    options
        What to collect; None where nothing is asked for.
    variable
        The variable that asks; empty where none is set.

    Raises
    ------
    OptionsError
        If ``NPUPROF_OPTIONS`` is no JSON object of options.
    """
    if text := environ.get(_VARIABLE):
        from npuprof.options import Options

        return Options.from_json(text), _VARIABLE
    if (text := environ.get(_OF_MINDSPORE)) and not registry.is_installed("mindspore"):
        from npuprof.options import mindspore as mindspore_options

        asked, told = mindspore_options.read(text)
        for line in told:
            _logger.warning("npuprof: %s: %s", _OF_MINDSPORE, plain_line(line))
        return asked, _OF_MINDSPORE
    return None, ""


def start() -> Session | None:
    """Start what this process's environment asks for, once; give the session, or None where there is none yet."""
    global _awaited
    if _session is not None or _awaited is not None or Path(sys.argv[0]).name == _COMMAND:
        return _session
    name = _VARIABLE if os.environ.get(_VARIABLE) else _OF_MINDSPORE
    try:
        asked, name = options(os.environ)
        if asked is None:
            return None
        if asked.collector == "auto" and (modules := registry.awaited()):
            _awaited = AwaitedImport(modules, lambda: _start(asked, name))
            atexit.register(_tell_of_no_import, name, modules, os.getpid())
            _tell(f"{name}: collecting begins when the program imports one of {', '.join(modules)}")
            return None
    except Exception as error:  # noqa: BLE001 - the user's program must go on without it
        _logger.error("npuprof: %s: nothing is collected: %s", name, plain_line(str(error)))
        return None
    return _start(asked, name)


def _start(asked: Options, name: str) -> Session | None:
    """Start the session that a variable asks for; what fails is told."""
    global _session
    try:
        from npuprof.options import lenient
        from npuprof.session.session import Session

        if name == _OF_MINDSPORE:  # what the front end lacks of it is told, and the rest runs
            check = registry.choose(asked.collector).collector.check
            asked = lenient.build(asked.to_dict(), lambda told: _logger.warning("npuprof: %s: %s", name, told), check)
        session = Session(asked, title=f"the session of {name}").start()
    except Exception as error:  # noqa: BLE001 - as above
        _logger.error("npuprof: %s: nothing is collected: %s", name, plain_line(str(error)))
        return None
    _session = session
    atexit.register(_finish, session, os.getpid())
    recording = session.recording
    _tell(f"{name}: collecting with {recording.collector} ({session.reason}) into {recording.directory}")
    return session


def _tell_of_no_import(name: str, modules: tuple[str, ...], pid: int) -> None:
    if _awaited is not None and _awaited.waiting and os.getpid() == pid:
        _tell(
            f"{name}: nothing was collected, because the program imported none of {', '.join(modules)}: name the "
            'front end with collector, such as "acl", to collect from the start'
        )


def _finish(session: Session, pid: int) -> None:
    """End the session with its process; a forked child leaves it to its parent."""
    if os.getpid() != pid:
        return
    try:
        if session.active:
            session.stop()
        recording = session.recording
    except Exception as error:  # noqa: BLE001 - the other handlers of the process's end must run
        _logger.error("npuprof: the session could not be ended: %s", plain_line(str(error)))
        return
    for problem in recording.problems:
        _logger.warning("npuprof: %s", plain_line(problem))
    _tell(f"the recording is {recording.directory}: open it with npuprof.load({str(recording.directory)!r})")


def _tell(message: str) -> None:
    with suppress(OSError, ValueError, AttributeError):  # a process may have closed its standard error, or have none
        sys.stderr.write(f"npuprof: {plain_line(message)}\n")
