"""A session requested by environment variables: from the import of npuprof to the end of the process.

If a framework is installed but not imported, collecting begins when it is imported, because only then is the front end
known. ``NPUPROF_OPTIONS`` holds the JSON form of :class:`npuprof.options.Options`. Without it, ``MS_PROFILER_OPTIONS``
is read as MindSpore documents it, unless MindSpore is installed, which then starts its profiler itself.

Problems are reported on standard error; neither the import nor the program fails. Where the program starts a session of
its own, this one ends first, and both recordings stay. The command ``npuprof`` and worker
processes are not profiled.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from npuprof.collectors import registry
from npuprof.machine.environment import ASKING
from npuprof.session.awaited_import import AwaitedImport
from npuprof.words.texts import plain_line

if TYPE_CHECKING:
    from npuprof.options import Options
    from npuprof.session.session import Session


_VARIABLE, _OF_MINDSPORE = ASKING
_COMMAND = "npuprof"  # the command that npuprof installs, and the module that does the same
_ITS_MODULE = b"npuprof.cli"  # which the command's file imports

_logger = logging.getLogger("npuprof")
_session: Session | None = None
_awaited: AwaitedImport | None = None


def options(environ: Mapping[str, str]) -> tuple[Options | None, str]:
    """Read the options from an environment; log everything that is invalid or changed.

    Returns
    -------
    options
        The options; None if no variable asks for a session.
    variable
        The name of the variable; empty if none is set.
    """
    if text := environ.get(_VARIABLE):
        from npuprof.options import Options

        return Options.from_json(text), _VARIABLE
    if (text := environ.get(_OF_MINDSPORE)) and not registry.is_installed("mindspore"):
        from npuprof.options import mindspore as mindspore_options

        requested, messages = mindspore_options.read(text)
        for line in messages:
            _logger.warning("npuprof: %s: %s", _OF_MINDSPORE, plain_line(line))
        return requested, _OF_MINDSPORE
    return None, ""


def start() -> Session | None:
    """Start the session requested by the environment, once; return None if there is none yet."""
    global _awaited
    if _session is not None or _awaited is not None or _is_own_command():
        return _session
    name = _VARIABLE if os.environ.get(_VARIABLE) else _OF_MINDSPORE
    try:
        asked, name = options(os.environ)
        if asked is None:
            return None
        if asked.collector == "auto" and (modules := registry.awaited()):
            _awaited = AwaitedImport(modules, lambda: _start(asked, name))
            atexit.register(_report_no_import, name, modules, os.getpid())
            _print(f"{name}: collecting begins when the program imports one of {', '.join(modules)}")
            return None
    except Exception as error:  # noqa: BLE001 - the user's program must go on without it
        _logger.error("npuprof: %s: nothing is collected: %s", name, plain_line(str(error)))
        return None
    return _start(asked, name)


def _is_own_command() -> bool:
    """Return whether this process runs the command ``npuprof``, and not a program of the user that is called so."""
    if sys.argv[0] == "-m":  # as long as Python looks for the module
        place = next((place for place, word in enumerate(sys.orig_argv) if word.startswith("-") and word[-1] == "m"), 0)
        return sys.orig_argv[place + 1 : place + 2] == [_COMMAND]
    program = Path(sys.argv[0])
    try:
        return program.name == _COMMAND and _ITS_MODULE in program.read_bytes()
    except OSError:
        return False


def _start(asked: Options, name: str) -> Session | None:
    """Start the session; log a failure."""
    global _session
    try:
        from npuprof.options import lenient
        from npuprof.session.precedence import end_for_others
        from npuprof.session.session import Session

        if name == _OF_MINDSPORE:  # options that the front end lacks are logged and ignored
            check = registry.choose(asked.collector).collector.check
            asked = lenient.build(asked.to_dict(), lambda text: _logger.warning("npuprof: %s: %s", name, text), check)
        session = Session(asked, title=f"the session of {name}").start()
    except Exception as error:  # noqa: BLE001 - as above
        _logger.error("npuprof: %s: nothing is collected: %s", name, plain_line(str(error)))
        return None
    _session = session
    atexit.register(_finish, session, os.getpid())
    end_for_others(partial(_end_for_program, session, name, os.getpid()))
    recording = session.recording
    _print(f"{name}: collecting with {recording.collector} ({session.reason}) into {recording.directory}")
    return session


def _report_no_import(name: str, modules: tuple[str, ...], pid: int) -> None:
    if _awaited is not None and _awaited.waiting and os.getpid() == pid:
        _print(
            f"{name}: nothing was collected, because the program imported none of {', '.join(modules)}: set "
            'collector, for example to "acl", to collect from the start'
        )


def _end_for_program(session: Session, name: str, pid: int, title: str) -> None:
    """End the session, because the program starts one of its own."""
    if os.getpid() == pid and session.active:
        _print(f"{name}: the program profiles itself with {title}, so the session of {name} ends here")
        atexit.unregister(_finish)
        _finish(session, pid)


def _finish(session: Session, pid: int) -> None:
    """Stop the session at the end of the process; a forked child leaves this to its parent."""
    if os.getpid() != pid:
        return
    try:
        if session.active:
            session.stop()
        recording = session.recording
    except Exception as error:  # noqa: BLE001 - the other atexit handlers must run
        _logger.error("npuprof: the session could not be stopped: %s", plain_line(str(error)))
        return
    for problem in recording.problems:
        _logger.warning("npuprof: %s", plain_line(problem))
    _print(f"the recording is {recording.directory}: open it with npuprof.load({str(recording.directory)!r})")


def _print(message: str) -> None:
    with suppress(OSError, ValueError, AttributeError):  # standard error may be closed or absent
        sys.stderr.write(f"npuprof: {plain_line(message)}\n")
