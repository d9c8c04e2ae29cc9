"""The start of a Python process below a profiled cell: it waits for the import of a front end.

The cell puts this folder in front of ``PYTHONPATH``, so that every Python that it starts, also an old one, runs this
file: it uses nothing but the standard library. A ``sitecustomize`` of the user's runs as it would without this one, and
no failure here reaches the program.

Until a front end is imported, nothing of npuprof is: a process that needs none costs a line in the log of the job.
"""

import os
import sys
import time

_VARIABLE = "NPUPROF_JOB"
_OF_WORKERS = "NPUPROF_WORKERS"  # the folder in which workers listen for later cells
_LOG = "processes.jsonl"
_WATCHED = "watched"  # a file in the folder of a cell that only asks which front ends its processes use
_MOST_LOG_BYTES = 16 << 20
_MODULES = ("torch_npu", "mindspore", "npu_bridge", "npu_device", "acl", "torch")
_MODULES += ("npuprof.simulator.npu", "npuprof.simulator.torch_front", "npuprof.simulator.acl")
_RANKS = ("RANK", "RANK_ID", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
_INHERITED = "NPUPROF_RANK_OF_PARENT"  # the rank that this process has from its parent alone
_QUIET = ("KINETO_LOG_LEVEL", "99")  # torch's profiler writes to standard error when it starts and stops


def _job():
    """Return the folder of the job; None if it is not this user's alone."""
    folder = os.environ.get(_VARIABLE, "")
    try:
        status = os.lstat(folder)
        log = os.lstat(os.path.join(folder, _LOG))
    except (OSError, ValueError):
        return None
    user = os.geteuid()
    private = status.st_uid == user == log.st_uid and status.st_mode & 0o170077 == 0o040000
    return folder if private and log.st_mode & 0o170077 == 0o100000 and log.st_size < _MOST_LOG_BYTES else None


def _listens():
    """Return whether a worker of this user's may listen for later cells."""
    try:
        status = os.lstat(os.environ.get(_OF_WORKERS, ""))
    except (OSError, ValueError):
        return False
    return status.st_uid == os.geteuid() and status.st_mode & 0o170077 == 0o040000


def _note(folder, what, **facts):
    """Append a line to the log of the job."""
    import json  # which takes as long as the rest of this file, and may not be needed

    facts.update(pid=os.getpid(), at_ns=int(time.time() * 1e9), what=what)
    try:
        number = os.open(os.path.join(folder, _LOG), os.O_WRONLY | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0))
        try:
            os.write(number, (json.dumps(facts) + "\n").encode("ascii"))
        finally:
            os.close(number)
    except (OSError, ValueError):
        pass


class _Awaited(object):
    """A finder that calls `imported` after the import of each module of a front end."""

    def __init__(self, imported):
        self._imported = imported
        self._searching = False

    def find_spec(self, fullname, path=None, target=None):
        """Return the spec that the other finders have, with a hook at its end; None for other modules."""
        if fullname not in _MODULES or self._searching:
            return None
        from importlib.util import find_spec

        self._searching = True
        try:
            spec = find_spec(fullname)
        finally:
            self._searching = False
        if fullname == "torch":
            os.environ.setdefault(*_QUIET)
        loader = getattr(spec, "loader", None)
        execute = getattr(loader, "exec_module", None)
        if execute is not None:

            def exec_module(module):
                execute(module)
                self._imported(fullname)

            try:
                loader.exec_module = exec_module
            except AttributeError:  # a loader with fixed attributes
                pass
        return spec


def _begin(folder, module):
    """Hand over to npuprof; a failure is a line in the log."""
    try:
        from npuprof.session.child_start import front_end_imported
    except Exception:
        if folder:
            _note(folder, "unprofiled", module=module, why="npuprof is not installed for " + sys.executable)
        return
    front_end_imported(folder, module)


def _start(folder):
    watched = folder and os.path.exists(os.path.join(folder, _WATCHED))
    seen = set()

    def imported(module):
        if watched:
            if not seen:
                _note(folder, "used", module=module)
            seen.add(module)
            if _listens():
                _begin("", module)
        else:
            _begin(folder, module)

    if folder and not watched:
        arguments = getattr(sys, "orig_argv", [sys.executable])
        name = next((name for name in _RANKS if os.environ.get(name, "").isdigit()), "")
        rank = os.environ.get(name, "")
        if not rank or os.environ.get(_INHERITED) == name + "=" + rank or os.environ.get("MS_ROLE") == "MS_SCHED":
            rank = "-1"
        words = [word[:200] for word in arguments[:12]]
        _note(folder, "began", parent=os.getppid(), arguments=words, rank=None if rank == "-1" else int(rank))
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=lambda: _note(folder, "began", parent=os.getppid(), arguments=words))
    sys.meta_path.insert(0, _Awaited(imported))


def _run_that_of_the_user():
    """Import the ``sitecustomize`` that this one hides, if there is one."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != here]
    hook = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401 - the user's
    except ImportError as error:
        if getattr(error, "name", "sitecustomize") != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault("sitecustomize", hook)


try:
    if hasattr(os, "geteuid"):
        _folder = _job()
        if _folder is not None or _listens():
            _start(_folder or "")
except Exception:
    pass
_run_that_of_the_user()
