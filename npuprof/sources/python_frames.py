"""Which Python frames are the user's: those that run a notebook's cell, wait in a thread or profile are left out.

The rule for stacks that npuprof samples and for calls that torch's tracer records.
"""

from __future__ import annotations

import re
import sys

import numpy as np
import numpy.typing as npt

from npuprof.arrays import Bools, Int64
from npuprof.lines.frames import FOLDERS_OF_PYTHON, Frame, cell_name

USER, RUNNER, PROFILER, AFTERWARDS, MAGIC, STATEMENT = range(6)
"""Roles of frames: code of the user; what runs it, or is called by it, such as Python's library; the profiler's own;
what IPython and npuprof do before, beside and after the profiled code; IPython's call of a magic, which is the
profiler's where npuprof is called; and a statement of a cell, which goes with its magic."""

# Packages whose frames above the user's code only execute it.
_MACHINERY = frozenset(
    {
        "IPython",
        "ipykernel",
        "ipykernel_launcher",
        "nest_asyncio",
        "tornado",
        "zmq",
        "jupyter_client",
        "traitlets",
        "anyio",
        "debugpy",
        "pydevd",
        "_pydevd_bundle",
        "decorator",
        # Of Python's library, wherever it is installed; the last is called by others.
        "asyncio",
        "threading",
        "concurrent",
        "multiprocessing",
        "selectors",
        "queue",
        "runpy",
        "contextlib",
    }
)
_LAUNCHER = "ipykernel_launcher.py"  # runs as __main__, as cells do

# Threads of the kernel that never run the user's code.
_OF_KERNEL = {
    "ipykernel.iostream": ("_thread_main", "_watch_pipe_fd", "_event_pipe_gc"),
    "ipykernel.heartbeat": ("run",),
    "ipykernel.parentpoller": ("run",),
    "IPython.core.history": ("run",),
}
# IPython's handling of an error in a cell, before its event for the end of the cell.
_ON_ERROR = frozenset({"showtraceback", "_format_exception_for_storage"})
_START_AND_STOP = "npuprof.session.active"  # calls no user code
_OF_TORCH = re.compile(r"torch\.(profiler|autograd\.profiler)(\.|$)")

_ABSOLUTE = re.compile(r"[/\\]|[A-Za-z]:")
_LIBRARY = re.compile(r"[/\\]lib(?:64)?[/\\]python\d+\.\d+t?[/\\](?!(?:site|dist)-packages[/\\])")
_FOLDERS = re.compile(
    r".*[/\\](?:(?:site|dist)-packages|lib(?:64)?[/\\]python\d+\.\d+t?)[/\\]|^<frozen |>$", re.IGNORECASE
)
_TEXT = "<string>"  # what exec runs, and methods that Python writes for classes


def role_of_frame(file: str, function: str, module: str) -> int:
    package = module.partition(".")[0]
    if module == _START_AND_STOP:
        return AFTERWARDS
    # The simulated NPU stands for hardware, and NumPy's mixin only forwards operators to its arrays.
    if package == "npuprof" or module == "numpy.lib.mixins":
        return PROFILER
    return _role_of_others(file, function, module)


def role_of_call(name: str) -> int:
    """Return the role of a call in a trace: ``asyncio/events.py(80): _run``, ``<built-in method wait>``."""
    frame = Frame.parse(name)
    if frame is None:
        return RUNNER if name.startswith("<") else USER  # a built-in function, or nn.Module: Linear_0
    if frame.is_npuprofs:
        return AFTERWARDS if _module_of(frame.file).endswith(_START_AND_STOP) else PROFILER
    if frame.function == "<module>" and cell_name(frame.file):
        return STATEMENT  # a call for each of the cell
    return _role_of_others(frame.file, frame.function, _module_of(frame.file))


def _role_of_others(file: str, function: str, module: str) -> int:
    """Return the role of a frame that is not npuprof's."""
    package = module.partition(".")[0]
    if module == "IPython.core.interactiveshell" and function in _ON_ERROR:
        return AFTERWARDS
    if module == "IPython.core.interactiveshell" and function == "run_line_magic":
        return MAGIC
    if function in _OF_KERNEL.get(module, ()):
        return AFTERWARDS
    # Displaying the value of a cell is called from the cell, but by the kernel.
    if (package in _MACHINERY and module.endswith(".displayhook")) or _OF_TORCH.match(module):
        return PROFILER
    is_launcher = module == "__main__" and re.split(r"[\\/]", file)[-1] == _LAUNCHER
    runs = package in _MACHINERY or is_launcher or _is_of_python(file, module)
    return RUNNER if runs or (file == _TEXT and function != "<module>") else USER


def _is_of_python(file: str, module: str) -> bool:
    """Return whether a file is of Python's library, whose folder frameworks drop from names: ``threading.py``."""
    if _ABSOLUTE.match(file) or file.startswith("<"):
        return file.startswith("<frozen ") or _LIBRARY.search(file) is not None
    package, folder, _ = module.partition(".")
    return package in (FOLDERS_OF_PYTHON if folder else sys.stdlib_module_names)


def _module_of(file: str) -> str:
    """Return the module of a file as far as its path tells: below the folder of packages."""
    return re.sub(r"[/\\]", ".", _FOLDERS.sub("", file).removesuffix(".py")).strip(".")


def begins_cell(frame: Frame, module: str) -> bool:
    """Return whether what is around a frame runs a shell: it is the code of a cell, or IPython's call that runs one."""
    return frame.is_of_cell or (module == "IPython.core.interactiveshell" and frame.function == "run_cell")


def shown_frames(parents: Int64, roles: npt.NDArray[np.int8], is_cell: Bools | None = None) -> tuple[Bools, Int64]:
    """Return which calls of a tree are shown, and the nearest shown call above each; -1 for none.

    The machinery above the user's first frame is removed, and the profiler's frames everywhere. Functions called by the
    profiler are removed too, up to where it calls user code again. Calls made before the profiled code began or after
    it ended are removed with their callees, since their time is not spent in that code. What is around a cell runs the
    shell, be it a script of the user's.
    """
    is_cell = roles == STATEMENT if is_cell is None else is_cell
    roles = np.where(_around_cells(parents, is_cell) & (roles == USER), np.int8(RUNNER), roles)
    count, roles = len(parents), _settled(parents, roles)
    # The last entry stands for the caller of calls without one.
    in_user, in_own, outside, shown = (np.zeros(count + 1, bool) for _ in range(4))
    above = np.full(count + 1, -1, np.int64)
    for rows in _levels(parents):
        role, parent = roles[rows], parents[rows]
        in_user[rows] = in_user[parent] | (role == USER)
        in_own[rows] = (role == PROFILER) | ((role == RUNNER) & in_own[parent])
        outside[rows] = outside[parent] | (role == AFTERWARDS)
        shown[rows] = in_user[rows] & ~in_own[rows] & ~outside[rows]
        above[rows] = np.where(shown[parent], np.where(parent < 0, -1, parent), above[parent])
    return shown[:count], above[:count]


def _around_cells(parents: Int64, is_cell: Bools) -> Bools:
    """Return which calls are around a cell, and not in one."""
    count, levels = len(parents), _levels(parents)
    # The last entry stands for the caller of calls without one.
    inside, around = np.zeros(count + 1, bool), np.zeros(count + 1, bool)
    if not is_cell.any():
        return around[:count]
    for rows in levels:
        inside[rows] = inside[parents[rows]] | is_cell[rows]
    for rows in reversed(levels):
        around[parents[rows[around[rows] | is_cell[rows]]]] = True
    around[:count] &= ~inside[:count]
    return around[:count]


def _settled(parents: Int64, roles: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
    """Return the roles without magics and statements, whose role is that of what they call."""

    def calling(is_callee: Bools) -> Bools:
        is_caller = np.zeros(len(roles), bool)
        is_caller[parents[is_callee & (parents >= 0)]] = True
        return is_caller

    own_magic = (roles == MAGIC) & calling(np.isin(roles, (PROFILER, AFTERWARDS)))
    own_statement = (roles == STATEMENT) & calling(own_magic)
    conditions = [own_magic, own_statement, roles == MAGIC, roles == STATEMENT]
    return np.select(conditions, [PROFILER, AFTERWARDS, RUNNER, USER], roles).astype(np.int8)


def _levels(parents: Int64) -> list[Int64]:
    """Return the rows of each level of a tree, callers before callees."""
    order = np.argsort(parents, kind="stable")
    begins = np.searchsorted(parents[order], np.arange(-1, len(parents) + 1))
    levels, rows = [], order[: begins[1]]
    while len(rows):
        levels.append(rows)
        first, counts = begins[rows + 1], begins[rows + 2] - begins[rows + 1]
        starts = np.repeat(first - np.cumsum(counts) + counts, counts)
        rows = order[starts + np.arange(int(counts.sum()))]
    return levels
