"""The choice of a session's collector."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

from npuprof.collectors.base import Collector

# Module and class of each front end, imported when chosen.
_HOMES = {
    "acl": ("npuprof.collectors.acl", "AclCollector"),
    "torch_npu": ("npuprof.collectors.torch_npu", "TorchNpuCollector"),
    "mindspore": ("npuprof.collectors.mindspore", "MindSporeCollector"),
    "tensorflow": ("npuprof.collectors.tensorflow", "TensorFlowCollector"),
    "msprof": ("npuprof.collectors.msprof", "MsprofCollector"),
    "kineto": ("npuprof.collectors.kineto", "KinetoCollector"),
    "simulator": ("npuprof.collectors.acl", "SimulatorCollector"),
}

# The frameworks with a front end, in order of preference: title, and the packages that a process imports to use them.
_FRAMEWORKS = (
    ("torch_npu", "torch_npu", ("torch_npu",)),
    ("mindspore", "MindSpore", ("mindspore",)),
    ("tensorflow", "TensorFlow's adapter", ("npu_bridge", "npu_device")),
)
_PYACL = "acl"
_PACKAGES = {"acl": (_PYACL,), "kineto": ("torch",), **{name: packages for name, _, packages in _FRAMEWORKS}}
# The modules that a process imports to use a front end, torch's last: it is imported for others, too.
_IMPORTED_FOR = {
    **{name: _PACKAGES[name] for name in ("torch_npu", "mindspore", "tensorflow", "acl")},
    "simulator": ("npuprof.simulator.npu", "npuprof.simulator.torch_front", "npuprof.simulator.acl"),
    "kineto": _PACKAGES["kineto"],
}
MODULES_OF_FRONT_ENDS = tuple(module for modules in _IMPORTED_FOR.values() for module in modules)
"""The modules that a process imports to use a front end."""
_OF_COLLECTOR = "npuprof.simulator.acl"  # which the simulator's collector imports, too
_SIMULATED = ("npuprof.simulator.npu", "npuprof.simulator.torch_front")  # imported by code for the simulated NPU
_LOADED_BY_TORCH = "torch_npu"  # unless the environment disables it
_NO_AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
_IMPORTS = re.compile(
    r"(?:^|[;:])[^\S\n]*(?:from[^\S\n]+([\w.]+)[^\S\n]+import\b|import[^\S\n]+([^#;\n]+))", re.MULTILINE
)


class Choice(NamedTuple):
    """A collector, and the reason for choosing it."""

    collector: Collector
    reason: str


def make(name: str) -> Collector:
    """Return a new collector by name, without importing its front end."""
    module, kind = _HOMES[name]
    factory: Callable[[], Collector] = getattr(import_module(module), kind)
    return factory()


def choose(name: str, code: str = "") -> Choice:
    """Return the collector with a name, or for ``auto`` the one that fits this process.

    ``auto`` takes a framework that the process has imported or that the code imports, else pyACL if installed, else an
    installed framework. It never falls back to the simulated NPU while one of them is in use: a broken installation
    must be mended, not hidden behind simulated times. Torch's profiler, the simulated NPU next to a real one, and
    msprof are chosen by name only.
    """
    if name != "auto":
        return Choice(make(name), "asked for")
    for collector, _, packages in _FRAMEWORKS:
        for package in filter(_is_imported, packages):
            return Choice(make(collector), f"{package} is imported in this process")
    idle = [(collector, title, name) for collector, title, names in _FRAMEWORKS if (name := _first_installed(names))]
    named = imported_by(code)
    for collector, _, package in idle:
        if package in named:
            return Choice(make(collector), f"{package} is installed, and the code imports {named[package]}")
    others = f"{' and '.join(title for _, title, _ in idle)}, which is installed too, is not imported"
    if is_installed(_PYACL):
        return Choice(make("acl"), f"pyACL is installed; {others}" if idle else "pyACL is installed")
    if idle and (any(map(_is_imported, _SIMULATED)) or "npuprof.simulator" in named):
        return Choice(make("simulator"), f"the simulated NPU is imported; {idle[0][1]}, which is installed, is not")
    if idle:
        return Choice(make(idle[0][0]), f"{idle[0][1]} is installed, and pyACL is not")
    looked_for = ", ".join(title for _, title, _ in _FRAMEWORKS)
    return Choice(
        make("simulator"),
        f"no native front end is installed for this Python (pyACL, {looked_for}), so the NPU is simulated",
    )


def why_absent(name: str) -> str:
    """Return why a front end cannot be used here; empty if it is installed. Nothing is imported."""
    if name == "msprof":
        from npuprof.machine import cann

        return "" if cann.msprof() is not None else "msprof is neither on PATH nor in ASCEND_HOME_PATH"
    packages = _PACKAGES.get(name, ())
    if not packages or _first_installed(packages):
        return ""
    return f"{' or '.join(packages)} is not installed for this Python"


def front_end_of_module(module: str, name: str = "auto") -> str:
    """Return the collector of the front end that a module is imported for; empty if it is not the one with a name."""
    collector = next((each for each, modules in _IMPORTED_FOR.items() if module in modules), "")
    return collector if name in ("auto", collector) else ""


def imported_front_ends() -> list[str]:
    """Return the modules of front ends that this process has imported, in order of preference."""
    return [module for module in MODULES_OF_FRONT_ENDS if module != _OF_COLLECTOR and _is_imported(module)]


def is_used(name: str, code: str = "") -> bool:
    """Return whether this process has imported the front end of a collector, or `code` does.

    torch_npu is used once the device is initialised: no process that is forked later could use it otherwise.
    """
    if name == "torch_npu":
        npu = getattr(sys.modules.get(name), "npu", None)
        return npu is not None and bool(npu.is_initialized())
    modules, named = _IMPORTED_FOR.get(name, ()), imported_by(code)
    return any(_is_imported(module) or module in named for module in modules)


def awaited() -> tuple[str, ...]:
    """Return the modules whose import decides the choice of ``auto``; empty if it is already decided."""
    packages = [package for _, _, packages in _FRAMEWORKS for package in packages]
    installed = [package for package in packages if is_installed(package)]
    if not installed or any(map(_is_imported, (*packages, _PYACL, *_SIMULATED))):
        return ()
    return (*installed, _PYACL) if is_installed(_PYACL) else (*installed, *_SIMULATED)


def imported_by(code: str) -> dict[str, str]:
    """Return the modules imported by source code, with their packages, each with the name used in the code.

    Works line by line, since a cell may contain magics and shell commands.
    """
    importers: dict[str, str] = {}
    for origin, listed in _IMPORTS.findall(code):
        for name in [origin] if origin else [words.split()[0] for words in listed.split(",") if words.split()]:
            parts = name.split(".")
            importers |= {".".join(parts[:length]): name for length in range(1, len(parts) + 1)}
    if "torch" in importers and os.environ.get(_NO_AUTOLOAD) != "0":
        importers.setdefault(_LOADED_BY_TORCH, "torch, which loads it")
    return importers


def is_installed(module: str) -> bool:
    """Return whether a module can be found, without importing it."""
    if module in sys.modules:
        return _is_imported(module)
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):  # an incomplete parent package
        return False


def _first_installed(packages: tuple[str, ...]) -> str:
    return next(filter(is_installed, packages), "")


def _is_imported(module: str) -> bool:
    return sys.modules.get(module) is not None  # None marks a module that must not be imported
