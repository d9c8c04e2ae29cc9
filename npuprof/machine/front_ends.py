"""What each native front end needs, and what this machine has of it, looked at from outside.

A framework is looked for without importing it, and then imported in a process of its own with a time limit: an import
may take long, print, or end its process.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Literal, TypeAlias

from npuprof.machine import cann, environment

State: TypeAlias = Literal["ok", "absent", "problem"]

_PROBE_S = 90.0
_MARK = "npuprof-probe:"
_MOST_SAID = 300
_CANN = "install the CANN toolkit, `source set_env.sh` of it, and restart the kernel"


@dataclass(frozen=True)
class FrontEnd:
    """A front end as it is looked for.

    Attributes
    ----------
    modules
        Modules that it needs; a tuple within is one of several.
    distributions
        Packages whose versions tell.
    get
        What to do where it is missing.
    probe
        A program that tells more, as JSON: versions, number of devices, the chip.
    """

    name: str
    modules: tuple[str | tuple[str, ...], ...]
    distributions: tuple[str, ...]
    get: str
    probe: str


@dataclass(frozen=True)
class Found:
    """A front end as it was found: its state, what was seen, and in words what to do."""

    name: str
    state: State
    detail: str
    facts: Mapping[str, Any]


_ACL_PROBE = """
import acl
assert hasattr(acl, "prof"), f"the module acl at {getattr(acl, '__file__', '?')} is not pyACL: it has no acl.prof"
count, code = acl.rt.get_device_count()
tell(devices=count, code=code, place=getattr(acl, "__file__", "?"),
     chip=str(acl.get_soc_name()) if hasattr(acl, "get_soc_name") else "")
"""
_TORCH_NPU_PROBE = """
import torch, torch_npu, torch_npu.profiler
count = torch_npu.npu.device_count()
tell(devices=count, torch=torch.__version__, torch_npu=torch_npu.__version__,
     chip=torch_npu.npu.get_device_name(0) if count else "")
"""
_MINDSPORE_PROBE = """
import mindspore, mindspore.profiler
tell(mindspore=mindspore.__version__, target=mindspore.get_context("device_target"))
"""
_TENSORFLOW_PROBE = """
import importlib.util, tensorflow
adapter = next(name for name in ("npu_device", "npu_bridge") if importlib.util.find_spec(name))
importlib.import_module(adapter)
tell(tensorflow=tensorflow.__version__, adapter=adapter)
"""
_KINETO_PROBE = """
import torch, torch.profiler
tell(torch=torch.__version__, gpus=torch.cuda.device_count() if torch.cuda.is_available() else 0)
"""
_PROLOGUE = f"""
import importlib, json
def tell(**facts):
    print({_MARK!r} + json.dumps(facts), flush=True)
"""

FRONT_ENDS: tuple[FrontEnd, ...] = (
    FrontEnd("acl", ("acl",), (), f"pyACL comes with CANN: {_CANN}", _ACL_PROBE),
    FrontEnd(
        "torch_npu",
        ("torch", "torch_npu"),
        ("torch", "torch_npu"),
        f"`pip install torch-npu` in the version that fits your torch; {_CANN}",
        _TORCH_NPU_PROBE,
    ),
    FrontEnd("mindspore", ("mindspore",), ("mindspore",), "`pip install mindspore`, 2.5 or newer", _MINDSPORE_PROBE),
    FrontEnd(
        "tensorflow",
        ("tensorflow", ("npu_device", "npu_bridge")),
        ("tensorflow", "npu_device", "npu_bridge"),
        f"install TensorFlow and its Ascend adapter, npu_device (2.x) or npu_bridge (1.x); {_CANN}",
        _TENSORFLOW_PROBE,
    ),
    FrontEnd("kineto", ("torch",), ("torch",), "`pip install torch`", _KINETO_PROBE),
)


def look() -> list[Found]:
    """Look at every front end; those that are there are tried at the same time."""
    with ThreadPoolExecutor(4) as pool:
        found = {one.name: one for one in pool.map(_look_at, FRONT_ENDS)}
    found["msprof"] = _msprof()
    found["simulator"] = Found("simulator", "ok", "the embedded simulated NPU; its times are estimates", {})
    order = ("acl", "torch_npu", "mindspore", "tensorflow", "msprof", "kineto", "simulator")
    return [found[name] for name in order]


def _look_at(front_end: FrontEnd) -> Found:
    missing = [
        " or ".join(names)
        for needed in front_end.modules
        if not any(map(_is_there, names := (needed,) if isinstance(needed, str) else needed))
    ]
    versions = {name: version for name in front_end.distributions if (version := _version(name))}
    if missing:
        return Found(front_end.name, "absent", f"no module {', '.join(missing)}: {front_end.get}", versions)
    facts, error = run_probe(front_end.probe)
    if error:
        return Found(front_end.name, "problem", f"it cannot be used ({error}): {front_end.get}", versions)
    seen = ", ".join(f"{name} {value}" for name, value in facts.items() if value not in ("", None))
    if facts.get("devices") == 0 or facts.get("code"):
        return Found(
            front_end.name, "problem", f"{seen}: no NPU is seen; check `npu-smi info`, ASCEND_RT_VISIBLE_DEVICES", facts
        )
    return Found(front_end.name, "ok", seen, {**versions, **facts})


def run_probe(program: str, timeout_s: float = _PROBE_S) -> tuple[dict[str, Any], str]:
    """Run a probe in a Python of its own that finds the modules that this one finds.

    Returns
    -------
    tuple
        What it told, and why it told nothing, of which one is empty.
    """
    variables = {**environment.of_own_process(), "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    try:
        done = subprocess.run(  # noqa: S603 - this Python with a program of our own
            [sys.executable, "-c", _PROLOGUE + program],
            env=variables,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {}, f"importing it took more than {timeout_s:g} s"
    for line in reversed(done.stdout.decode(errors="replace").splitlines()):
        if line.startswith(_MARK):
            facts: dict[str, Any] = json.loads(line[len(_MARK) :])
            return facts, ""
    said = [line.strip() for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
    return {}, (said[-1] if said else f"its import ended the process with status {done.returncode}")[:_MOST_SAID]


def _is_there(module: str) -> bool:
    if module in sys.modules:
        return sys.modules[module] is not None
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):  # a half-made module of that name
        return False


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def _msprof() -> Found:
    tool = cann.msprof()
    if tool is None:
        return Found("msprof", "absent", f"no msprof on PATH or in ASCEND_HOME_PATH: {_CANN}", {})
    facts = {"place": str(tool), "cann": cann.toolkit_version()}
    try:
        done = subprocess.run(  # noqa: S603 - the vendor's tool, asked for its help
            [str(tool), "--help"], capture_output=True, stdin=subprocess.DEVNULL, timeout=_PROBE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Found("msprof", "problem", f"{tool} does not run ({error}): {_CANN}", facts)
    if done.returncode:
        return Found("msprof", "problem", f"`{tool} --help` ended with status {done.returncode}: {_CANN}", facts)
    ready = os.environ.get("PROFILING_MODE") == "dynamic"
    attaching = "attaches to this process" if ready else "attaches to processes started with PROFILING_MODE=dynamic"
    return Found("msprof", "ok", f"{tool}; {attaching}, and runs scripts (npuprof run)", facts)
