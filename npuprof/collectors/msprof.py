"""The msprof collector: the vendor's tool attaches to this process, and collects between `start` and `stop`.

It can only attach to a process that was started with ``PROFILING_MODE=dynamic`` in its environment; a program of
one's own is run by it from its beginning instead, see :mod:`npuprof.session.applications`.
Source: collectors/FRONTENDS.md section 5.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from npuprof import atomic
from npuprof.collectors import capabilities, msprof_flags
from npuprof.collectors.acl import AclCollector
from npuprof.collectors.msprof_client import MsprofProcess, has_data
from npuprof.errors import CollectorError, FrontEndAbsentError, NpuprofError
from npuprof.machine import cann
from npuprof.options import Options

LOG_NAME = "msprof.log"
_ATTACH_S = 90.0  # it waits for a minute itself until the process listens
_STOP_S = 120.0
_QUIT_S = 300.0  # it may export what it has collected
_MODE = "PROFILING_MODE"
# Its answers to the two words. A line that begins with [ERROR] is none: it also reports what it can do without.
_STARTED = re.compile(r"start success|start fail|already started|device has not been set up", re.IGNORECASE)
_STOPPED = re.compile(r"stop success|stop fail|profiling has not started", re.IGNORECASE)


def find() -> Path:
    """Return the path of msprof.

    Raises
    ------
    FrontEndAbsentError
        If it is not installed.
    """
    tool = cann.msprof()
    if tool is None:
        raise FrontEndAbsentError(
            "msprof is not installed (neither on PATH nor in ASCEND_HOME_PATH): install the CANN toolkit and "
            "`source set_env.sh`, or use another collector"
        )
    return tool


class MsprofCollector(AclCollector):
    """Collects with the tool msprof, attached to this process; markers are pyACL's stamps, which it records."""

    name = "msprof"
    simulated = False
    stops_on_any_thread = False

    def __init__(self) -> None:
        super().__init__()
        self._msprof: MsprofProcess | None = None
        self._directory = Path()

    def check(self, options: Options) -> None:
        """Refuse what msprof cannot do, and a process that it cannot attach to."""
        capabilities.check(self.name, options)
        msprof_flags.refuse(options, attached=True)
        if not self.drives(options):
            return
        find()
        if (mode := _mode_at_start()) != "dynamic":
            said = f"{_MODE}={mode}" if mode else f"no {_MODE}"
            raise CollectorError(
                f"msprof can only attach to a process that was started with {_MODE}=dynamic in its environment, and "
                f"this one was started with {said}: set it for the kernel (in `env` of its kernel.json, or "
                f"`{_MODE}=dynamic jupyter lab`) and restart, or run a script with `%npuprof run`"
            )

    def warmup(self, options: Options, directory: Path) -> None:
        """Start the tool, which attaches to this process by itself and waits for the word to collect."""
        self._msprof = self._attached(options, directory)

    def _attached(self, options: Options, directory: Path) -> MsprofProcess:
        pid = os.getpid()
        command = [str(find()), "--dynamic=on", f"--pid={pid}", f"--output={directory}"]
        return MsprofProcess([*command, *msprof_flags.flags(options, pid=pid)], takes_words=True)

    def start(self, options: Options, directory: Path) -> None:
        """Attach to this process and start collecting into `directory`; a failure leaves nothing running."""
        msprof, self._msprof = self._msprof or self._attached(options, directory), None
        try:
            answer = msprof.ask("start", _STARTED, _ATTACH_S)
            if "success" not in answer[0].lower():
                raise CollectorError(f"msprof refused to start. {msprof.last_words()}")
        except CollectorError as error:
            msprof.kill()
            raise CollectorError(
                f"{error}. It reaches a process only after that has initialised CANN (acl.init, or its framework's "
                "first use of the NPU), and one msprof at a time"
            ) from None
        except BaseException:
            msprof.kill()
            raise
        self._msprof, self._directory, self._running = msprof, directory, True
        if options.marks:
            with suppress(FrontEndAbsentError):  # a process without pyACL has markers of its own, or none
                self._acl, self._marks = self.load(), True

    def stop(self) -> None:
        """Stop collecting, detach, and see that it has left its data."""
        for handle in list(self._ranges):
            self.range_stop(handle)
        self._marks, self._acl = False, None
        msprof, self._msprof = self._msprof, None
        if msprof is None:
            return
        if not self._running:  # it has warmed up only
            msprof.kill()
            return
        self._running = False
        try:
            answer = msprof.ask("stop", _STOPPED, _STOP_S)
            if "success" not in answer[0].lower():
                raise CollectorError(f"msprof did not stop in order. {msprof.last_words()}")
            status = msprof.quit(_QUIT_S)
        except BaseException:
            msprof.kill()
            raise
        finally:
            with suppress(NpuprofError):
                atomic.write(self._directory / LOG_NAME, msprof.output.encode(errors="backslashreplace"))
        if not has_data(self._directory):
            raise CollectorError(
                f"msprof ended with status {status} and left no PROF_* directory. {msprof.last_words()}"
            )
        if status is None:
            raise CollectorError(f"msprof did not quit within {_QUIT_S:g} s and was ended; what it collected is kept")
        if status:
            raise CollectorError(f"msprof ended with status {status}. {msprof.last_words()}")

    def versions(self) -> Mapping[str, str]:
        """Return the version of the CANN toolkit, and the tool that was used."""
        found = {"msprof": str(tool)} if (tool := cann.msprof()) is not None else {}
        return found | ({"cann": version} if (version := cann.toolkit_version()) else {})


def _mode_at_start() -> str:
    """Return the mode of profiling that this process was started with; what was set since then comes too late."""
    try:
        entries = Path("/proc/self/environ").read_bytes().split(b"\0")
    except OSError:
        return os.environ.get(_MODE, "")
    values = [entry.partition(b"=")[2] for entry in entries if entry.startswith(_MODE.encode() + b"=")]
    return values[0].decode(errors="replace") if values else ""
