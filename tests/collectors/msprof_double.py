"""A stand-in for the vendor's tool msprof: its options, refusals and prompts, written down as measured.

Source: collectors/FRONTENDS.md section 5. What it "collects" is a copy of a raw directory that the test gives it.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from tests.programs import write_python_program

ON_OFF = r"on|off"
METRICS = (
    r"ArithmeticUtilization|PipeUtilization|Memory|MemoryL0|MemoryUB|ResourceConflictRatio|L2Cache|MemoryAccess"
    r"|Custom:0x[0-9a-f]+(,0x[0-9a-f]+){0,7}"
)


def up_to(most: int) -> str:
    """Return the pattern of a whole number from 1 to some most."""
    return "|".join(str(number) for number in range(1, most + 1))


# Every option of the tool that takes a value, and the pattern of the values.
OPTIONS: dict[str, str] = {
    "output": r".+",
    "storage-limit": r"[2-9]\d\dMB|[1-9]\d{3,9}MB",
    "type": r"text|db",
    "ascendcl": ON_OFF,
    "model-execution": ON_OFF,
    "runtime-api": ON_OFF,
    "hccl": ON_OFF,
    "aicpu": ON_OFF,
    "l2": ON_OFF,
    "task-memory": ON_OFF,
    "msproftx": ON_OFF,
    "task-tsfw": ON_OFF,
    "task-time": r"on|off|l0|l1|l2",
    "task-trace": r"on|off|l0|l1|l2",
    "ge-api": r"off|l0|l1",
    "aicore-shape": ON_OFF,
    "ai-core": ON_OFF,
    "aic-mode": r"task-based|sample-based",
    "aic-freq": up_to(100),
    "aic-metrics": METRICS,
    "sys-hardware-mem": ON_OFF,
    "sys-hardware-mem-freq": up_to(100),
    "llc-profiling": r"read|write",
    "sys-cpu-profiling": ON_OFF,
    "sys-cpu-freq": up_to(50),
    "sys-io-profiling": ON_OFF,
    "sys-io-sampling-freq": up_to(100),
    "sys-interconnection-profiling": ON_OFF,
    "sys-interconnection-freq": up_to(50),
    "dvpp-profiling": ON_OFF,
    "dvpp-freq": up_to(100),
    "host-sys": r"(cpu|mem|disk|network|osrt)(,(cpu|mem|disk|network|osrt))*",
    "host-sys-usage": r"(cpu|mem)(,(cpu|mem))*",
    "host-sys-usage-freq": up_to(50),
    "host-sys-pid": r"\d+",
    "mstx-domain-include": r".+",
    "mstx-domain-exclude": r".+",
    "delay": r"[1-9]\d{0,9}",
    "duration": r"[1-9]\d{0,9}",
    "dynamic": ON_OFF,
    "pid": r"\d+",
    "export": ON_OFF,
}
# What an option needs beside it.
NEEDS: dict[str, tuple[str, str]] = {
    "mstx-domain-include": ("msproftx", "on"),
    "mstx-domain-exclude": ("msproftx", "on"),
    "sys-hardware-mem-freq": ("sys-hardware-mem", "on"),
    "sys-io-sampling-freq": ("sys-io-profiling", "on"),
    "sys-interconnection-freq": ("sys-interconnection-profiling", "on"),
    "dvpp-freq": ("dvpp-profiling", "on"),
    "llc-profiling": ("sys-hardware-mem", "on"),
}
NOTES: dict[str, str] = {"hccl": "hccl will be discarded, use task-time", "model-execution": "it will be discarded"}
PROMPTS: dict[str, str] = {
    "start": "(msprof) dynamic profiling start success......",
    "stop": "(msprof) dynamic profiling stop success......",
    "again": "[WARNING] (msprof) dynamic profiling already started",
    "no_device": "[WARNING] (msprof) dynamic profiling device has not been set up......",
    "failed": "[ERROR] (msprof) dynamic profiling start failed......",
    "idle": "[WARNING] (msprof) dynamic profiling has not started......",
    "no_msopprof": "[ERROR] Cannot find msopprof in the toolkit.",
    "usage": "Usage: start | stop | quit",
}
MISLEADING = "[ERROR] Argument --dvpp-freq is empty."
NO_DATA = "[ERROR] Failed to find profiling data"

_BODY = """
import json, os, re, shutil, subprocess, sys, time

tables = json.loads(TABLES)
behaviour = json.loads(os.environ.get("FAKE_MSPROF", "{}"))
given, words = {}, list(sys.argv[1:])
while words and words[0].startswith("--"):
    name, _, value = words.pop(0)[2:].partition("=")
    if name not in tables["options"] or not re.fullmatch(tables["options"][name], value):
        print(tables["misleading"])
        sys.exit(255)
    given[name] = value
for name, (other, value) in tables["needs"].items():
    if name in given and given.get(other) != value:
        print(tables["misleading"])
        sys.exit(255)
for name, note in tables["notes"].items():
    if given.get(name) == "on":
        print(note)
if log := behaviour.get("log"):
    with open(log, "a") as file:
        file.write(json.dumps([sys.argv[1:], os.environ.get("PROFILING_MODE", "")]) + "\\n")
sys.stdout.flush()

made = 0
def collect():
    global made
    made += 1
    if data := behaviour.get("data"):
        shutil.copytree(data, os.path.join(given["output"], os.path.basename(data).replace("000001", f"{made:06d}")))

if given.get("export") == "on":
    exporter = behaviour.get("exporter", "raise SystemExit(255)")
    sys.exit(subprocess.run([sys.executable, "-c", exporter, given["output"]]).returncode)
if given.get("dynamic") == "on" and "pid" in given:
    if behaviour.get("deaf"):
        time.sleep(60)
    if refusal := behaviour.get("refusal"):
        print(refusal, flush=True)
        sys.exit(255)
    started = False
    for word in map(str.strip, sys.stdin):
        print(tables["prompts"][behaviour["grumbles"]] if "grumbles" in behaviour else "(msprof)", flush=True)
        if word == "start" and (started or "refuses" in behaviour):
            print(tables["prompts"][behaviour.get("refuses", "again")], flush=True)
        elif word == "start":
            started = True
            print(tables["prompts"]["start"], flush=True)
        elif word == "stop" and started:
            if behaviour.get("dies"):
                sys.exit(3)
            started = False
            collect()
            print(tables["prompts"]["stop"], flush=True)
        elif word == "stop":
            print(tables["prompts"]["idle"], flush=True)
        elif word == "quit":
            sys.exit(behaviour.get("status", 0))
        else:
            print(tables["prompts"]["usage"], flush=True)
    sys.exit(0)
status = subprocess.run(words, env={**os.environ, "PROFILER_SAMPLECONFIG": "a"}).returncode
if not behaviour.get("data"):
    print(tables["no_data"])
    sys.exit(255)
collect()
sys.exit(status)
"""


def install(folder: Path) -> Path:
    """Write the stand-in into a directory that is to be put on PATH."""
    tables = {
        "options": OPTIONS,
        "needs": NEEDS,
        "notes": NOTES,
        "prompts": PROMPTS,
        "misleading": MISLEADING,
        "no_data": NO_DATA,
    }
    tool = folder / "msprof"
    write_python_program(tool, f"TABLES = {json.dumps(json.dumps(tables))}\n{_BODY}")
    return tool


def put_on_path(folder: Path) -> str:
    """Return a PATH on which the stand-in comes first and nothing else is called msprof."""
    assert shutil.which("msprof") in (None, str(folder / "msprof")), "a real msprof would hide the stand-in"
    return os.pathsep.join([str(folder), os.environ["PATH"]])
