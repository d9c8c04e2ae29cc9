"""The checks of ``npuprof doctor``: the front ends that this machine can use, and missing parts."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, TypeAlias

from npuprof.files import cache
from npuprof.machine import cann, environment, launchers
from npuprof.machine.shadowed import shadowing_files
from npuprof.options import DEFAULT_OUTPUT
from npuprof.words.commands import own_command, shell_command, shell_word
from npuprof.words.quantities import size

State: TypeAlias = Literal["ok", "absent", "problem"]

_PROBE_S = 90.0
_MARK = "npuprof-probe:"
_MOST_SAID = 300
_CANN = "install the CANN toolkit, `source set_env.sh` of it, and restart the kernel"


@dataclass(frozen=True)
class FrontEnd:
    """The requirements of a front end."""

    name: str
    modules: tuple[str | tuple[str, ...], ...]  # the modules it needs; a tuple within holds alternatives
    distributions: tuple[str, ...]  # the packages with its versions
    get: str  # instructions to install it
    probe: str  # A program that prints facts as JSON: versions, number of devices, the chip


@dataclass(frozen=True)
class FrontEndState:
    """The state of a front end, with details and what to do."""

    name: str
    state: State
    detail: str
    facts: Mapping[str, Any]


_ACL_PROBE = """
import acl
assert hasattr(acl, "prof"), f"the module acl at {getattr(acl, '__file__', '?')} is not pyACL: it has no acl.prof"
count, code = acl.rt.get_device_count()
report(devices=count, code=code, place=getattr(acl, "__file__", "?"),
     chip=str(acl.get_soc_name()) if hasattr(acl, "get_soc_name") else "")
"""
_TORCH_NPU_PROBE = """
import torch, torch_npu, torch_npu.profiler
count = torch_npu.npu.device_count()
report(devices=count, torch=torch.__version__, torch_npu=torch_npu.__version__,
     chip=torch_npu.npu.get_device_name(0) if count else "")
"""
_MINDSPORE_PROBE = """
import mindspore, mindspore.profiler
report(mindspore=mindspore.__version__, target=mindspore.get_context("device_target"))
"""
_TENSORFLOW_PROBE = """
import importlib.util, tensorflow
adapter = next(name for name in ("npu_device", "npu_bridge") if importlib.util.find_spec(name))
importlib.import_module(adapter)
report(tensorflow=tensorflow.__version__, adapter=adapter)
"""
_KINETO_PROBE = """
import torch, torch.profiler
report(torch=torch.__version__, gpus=torch.cuda.device_count() if torch.cuda.is_available() else 0)
"""
_PROLOGUE = f"""
import importlib, json
def report(**facts):
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


def look() -> list[FrontEndState]:
    """Check every front end; installed ones are probed concurrently."""
    with ThreadPoolExecutor(4) as pool:
        by_name = {result.name: result for result in pool.map(_probe, FRONT_ENDS)}
    by_name["msprof"] = _msprof()
    by_name["simulator"] = FrontEndState("simulator", "ok", "the embedded simulated NPU; its times are estimates", {})
    order = ("acl", "torch_npu", "mindspore", "tensorflow", "msprof", "kineto", "simulator")
    return [by_name[name] for name in order]


def _probe(front_end: FrontEnd) -> FrontEndState:
    missing = [
        " or ".join(names)
        for needed in front_end.modules
        if not any(map(_is_there, names := (needed,) if isinstance(needed, str) else needed))
    ]
    versions = {name: version for name in front_end.distributions if (version := _version(name))}
    if missing:
        return FrontEndState(front_end.name, "absent", f"no module {', '.join(missing)}: {front_end.get}", versions)
    facts, error = run_probe(front_end.probe)
    if error:
        return FrontEndState(front_end.name, "problem", f"it cannot be used ({error}): {front_end.get}", versions)
    seen = ", ".join(f"{name} {value}" for name, value in facts.items() if value not in ("", None))
    if facts.get("devices") == 0 or facts.get("code"):
        return FrontEndState(
            front_end.name, "problem", f"{seen}: no NPU is seen; check `npu-smi info`, ASCEND_RT_VISIBLE_DEVICES", facts
        )
    return FrontEndState(front_end.name, "ok", seen, {**versions, **facts})


def run_probe(program: str, timeout_s: float = _PROBE_S) -> tuple[dict[str, Any], str]:
    """Run a probe in a new Python process with this one's module path."""
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
    errors = [line.strip() for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
    return {}, (errors[-1] if errors else f"its import ended the process with status {done.returncode}")[:_MOST_SAID]


def _is_there(module: str) -> bool:
    if module in sys.modules:
        return sys.modules[module] is not None
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):  # an incomplete module of that name
        return False


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def _msprof() -> FrontEndState:
    tool = cann.msprof()
    if tool is None:
        return FrontEndState("msprof", "absent", f"no msprof on PATH or in ASCEND_HOME_PATH: {_CANN}", {})
    facts = {"place": str(tool), "cann": cann.toolkit_version()}
    try:
        done = subprocess.run(  # noqa: S603 - the vendor's tool, asked for its help
            [str(tool), "--help"], capture_output=True, stdin=subprocess.DEVNULL, timeout=_PROBE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return FrontEndState("msprof", "problem", f"{tool} does not run ({error}): {_CANN}", facts)
    if done.returncode:
        detail = f"`{shell_command(tool, '--help')}` ended with status {done.returncode}: {_CANN}"
        return FrontEndState("msprof", "problem", detail, facts)
    ready = os.environ.get("PROFILING_MODE") == "dynamic"
    attaching = "attaches to this process" if ready else "attaches to processes started with PROFILING_MODE=dynamic"
    return FrontEndState("msprof", "ok", f"{tool}; {attaching}, and runs scripts (npuprof run)", facts)


_LOW_DISK_BYTES = 1 << 30  # a minute of training at level 2 writes about this much
_DEVICES = Path("/dev")
_PACKAGES = ("npuprof", "ipython", "ipykernel", "jupyterlab", "ipywidgets", "plotly", "pandas", "numpy", "pyarrow")


@dataclass(frozen=True)
class Diagnosis:
    """A checked subject: its state, and details or what to do."""

    subject: str
    state: State
    detail: str


def diagnose(output: Path = DEFAULT_OUTPUT) -> list[Diagnosis]:
    """Check the hardware, the front ends, the packages and the output directory, without changing anything.

    Front ends are imported in separate processes.
    """
    launcher = Diagnosis("launchers", "ok", launchers.describe())
    checks = [_environment(), _modules(), launcher, _directory(output), _disk(output), _cache()]
    front_ends = [Diagnosis(f"front end {result.name}", result.state, result.detail) for result in look()]
    return [_packages(), _hardware(), *front_ends, *checks]


@dataclass(frozen=True)
class NextStep:
    """The next thing to do, and the command for it."""

    what: str
    command: str


def next_step(findings: Sequence[Diagnosis], output: Path | None = None) -> NextStep:
    """Return the next step for the user of this machine: fix the first problem, install missing packages, or begin."""
    states = {finding.subject: finding.state for finding in findings}
    for finding in findings:
        if finding.state == "problem":
            return NextStep(f"mend the {finding.subject} ({finding.detail})", _remedy(finding))
    if lacking := [name for name in ("ipykernel", "jupyterlab") if not _version(name)]:
        return NextStep(f"to see reports in a notebook, install {' and '.join(lacking)}", _install("npuprof[lab]"))
    if states.get("hardware") != "ok":
        return NextStep("there is no NPU here: try it on the simulated one", own_command("demo"))
    if not any(states.get(f"front end {name}") == "ok" for name in _NATIVE):
        if torch := _version("torch"):
            wanted = f"torch-npu=={torch.partition('+')[0]}.*"
            return NextStep("torch is here without its adapter for the NPU: install that", _install(wanted))
        return NextStep("no front end reaches the NPU: let this shell know of CANN", f"source {_SET_ENV}")
    return NextStep(
        "profile a small known workload with each front end, and see that it is decoded",
        own_command("doctor", "--verify", *(() if output is None else ("--output", output))),
    )


_NATIVE = ("acl", "torch_npu", "mindspore", "tensorflow", "msprof")
_SET_ENV = "/usr/local/Ascend/ascend-toolkit/set_env.sh"


def _remedy(finding: Diagnosis) -> str:
    """Return the command that fixes a problem, or shows it completely."""
    kind, _, name = finding.subject.partition("front end ")
    if kind == "hardware" and "closed" in finding.detail:
        node = shell_word(f"/dev/{finding.detail.partition(' ')[0].rstrip(',')}")
        return f'sudo usermod -aG "$(stat -c %G {node})" "$USER"'
    if kind == "hardware":
        return "npu-smi info" if "the driver" in finding.detail else f"source {_SET_ENV}"
    if kind == "environment":
        return "unset PROFILING_MODE"
    if kind == "modules":
        file = Path(finding.detail.partition(": ")[0].partition(", ")[0])
        return shell_command("mv", file, file.with_name(f"my_{file.name}"))
    if kind:
        return own_command("doctor", "--output", _other_directory())
    if name == "msprof":
        return "msprof --help"
    if "no NPU is seen" in finding.detail:
        return "npu-smi info"
    modules = [needed for needed in _by_name(name).modules if isinstance(needed, str)]
    return shell_command(sys.executable, "-c", f"import {', '.join(modules)}")


def _install(requirement: str) -> str:
    return shell_command(sys.executable, "-m", "pip", "install", requirement)


def _other_directory() -> Path:
    """Return a directory for recordings that can be written to and has space; the first of several if none has."""
    homes = [Path(tempfile.gettempdir()), Path("/var/tmp")]  # noqa: S108 - the second is often on a larger disk
    with suppress(RuntimeError):  # a user without a home
        homes.insert(0, Path.home())
    places = [home / f"npuprof-recordings-{os.getuid()}" for home in homes]
    fitting = (place for place in places if "problem" not in (_directory(place).state, _disk(place).state))
    return next(fitting, places[0])


def _by_name(name: str) -> FrontEnd:
    return next(front_end for front_end in FRONT_ENDS if front_end.name == name)


def _packages() -> Diagnosis:
    versions = []
    for name in _PACKAGES:
        try:
            versions.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            versions.append(f"{name} absent")
    return Diagnosis("packages", "ok", f"Python {platform.python_version()}, " + ", ".join(versions))


def _hardware() -> Diagnosis:
    """Check the driver, the devices and CANN, which every native front end needs."""
    nodes = sorted(path.name for path in _DEVICES.glob("davinci[0-9]*"))
    driver, toolkit = cann.driver_version(), cann.toolkit_version()
    seen_names = [
        f"devices {', '.join(nodes)}" if nodes else "no NPU",
        f"driver {driver}" if driver else "no driver",
        f"CANN {toolkit}" if toolkit else "no CANN toolkit",
    ]
    if not nodes:
        return Diagnosis("hardware", "absent", f"{'; '.join(seen_names)}: runs are simulated, or read from disk")
    missing = [subject for subject, there in (("the driver", driver), ("the CANN toolkit", toolkit)) if not there]
    if missing:
        return Diagnosis("hardware", "problem", f"{'; '.join(seen_names)}: install {' and '.join(missing)}")
    closed_names = [name for name in nodes if not os.access(_DEVICES / name, os.R_OK | os.W_OK)]
    if closed_names:
        return Diagnosis(
            "hardware", "problem", f"{', '.join(closed_names)} are closed to this user: join the driver's group"
        )
    return Diagnosis("hardware", "ok", "; ".join(seen_names))


def _environment() -> Diagnosis:
    """Check the variables that change the behaviour of the native profiler."""
    mode = os.environ.get("PROFILING_MODE")
    if mode:
        return Diagnosis(
            "environment",
            "problem",
            f"PROFILING_MODE={mode} reserves the native profiler for msprof: use --collector msprof, or unset it and "
            "restart the kernel",
        )
    home = os.environ.get("ASCEND_HOME_PATH")
    return Diagnosis("environment", "ok", f"ASCEND_HOME_PATH={home}" if home else "ASCEND_HOME_PATH is not set")


def _modules() -> Diagnosis:
    files = shadowing_files()
    if not files:
        return Diagnosis("modules", "ok", "no file here has the name of a module of the standard library")
    names = ", ".join(files)
    return Diagnosis("modules", "problem", f"{names}: Python imports these instead of its own modules; rename them")


def _directory(output: Path) -> Diagnosis:
    place = _existing(output)
    if place.is_dir() and os.access(place, os.W_OK | os.X_OK):
        kept = f"kept in {output.absolute()}, which can be written to"
        return Diagnosis("recordings", "ok", f"{kept}; --output or ASCEND_WORK_PATH keeps them elsewhere")
    return Diagnosis("recordings", "problem", f"{place} cannot be written to: choose another directory with --output")


def _disk(output: Path) -> Diagnosis:
    free = shutil.disk_usage(_existing(output)).free
    if free < _LOW_DISK_BYTES:
        return Diagnosis("free disk", "problem", f"{free / 1e9:.1f} GB are left: free some, or choose another --output")
    return Diagnosis("free disk", "ok", f"{free / 1e9:.1f} GB are left")


def _cache() -> Diagnosis:
    """Return the directory and size of the cache of many ranks, and how to clear it."""
    used = f"{cache.directory()} holds {size(cache.size_bytes())} of at most {size(cache.MOST_BYTES)}"
    clear = shell_command("rm", "-r", cache.directory())
    return Diagnosis("cache", "ok", f"{used}: copies of small files of ranks; `{clear}` clears it")


def _existing(path: Path) -> Path:
    """Return the path, or its closest existing parent that is visible to the user."""
    path = path.absolute()
    while not os.path.exists(path):  # noqa: PTH110 - Path.exists() raises below a directory that is closed to the user
        path = path.parent
    return path
