"""`npuprof run --collector NAME script.py`: each name that its help offers runs a script, or says what it lacks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import npuprof
from npuprof.options import COLLECTORS
from npuprof.simulator import npu
from tests.collectors import msprof_double
from tests.pace import seconds

_SCRIPT = """
from npuprof.simulator import npu
x = npu.ones((64, 64))
for step in range(4):
    x = x @ x / 64
print("it ran")
"""
_ACL = "from npuprof.simulator.acl import *\nfrom npuprof.simulator.acl import prof, rt\n"
_MINDSPORE = """
import pytest
from tests.collectors import mindspore_double as double
double.install(pytest.MonkeyPatch(), double.Double(device="Ascend"))
"""
_TENSORFLOW = """
from npuprof.collectors.acl import SimulatorCollector
from tests.collectors.test_tensorflow import Adapter
adapter = Adapter()
adapter.npu = SimulatorCollector()
Profiler = adapter.profiler
"""
_DOUBLES = {
    "acl": {"acl.py": _ACL},
    "mindspore": {"sitecustomize.py": _MINDSPORE},
    "tensorflow": {
        "npu_bridge/__init__.py": "__version__ = '1.15'\n",
        "npu_bridge/profiler/__init__.py": "",
        "npu_bridge/profiler/profiler.py": _TENSORFLOW,
    },
    "msprof": {},
    "simulator": {},
}
"""The modules that stand for a front end's, by file."""


def _run(folder: Path, collector: str) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(_SCRIPT)
    for name, content in _DOUBLES.get(collector, {}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    raw = folder / "raw"
    if collector == "msprof":
        with npuprof.profile(collector="simulator", activities="npu", output=raw):
            npu.ones((8, 8))
        (raw,) = raw.glob("*/PROF_*")
        msprof_double.install(folder)
    root = Path(npuprof.__file__).parents[1]
    options = {name: value for name, value in os.environ.items() if not name.startswith("NPUPROF_")}
    return subprocess.run(
        [
            *(sys.executable, "-m", "npuprof", "run", "--no-report", "--collector", collector),
            *("--output", str(folder / "out"), str(folder / "train.py")),
        ],
        capture_output=True,
        text=True,
        cwd=folder,
        env={
            **options,
            "PYTHONPATH": os.pathsep.join([str(folder), str(root)]),
            "PATH": msprof_double.put_on_path(folder),
            "FAKE_MSPROF": json.dumps({"data": str(raw), "log": str(folder / "calls")}),
        },
        timeout=seconds(120),
        check=False,
    )


@pytest.mark.long
@pytest.mark.parametrize("collector", COLLECTORS)
def test_offered_collectors_run_a_script(collector: str, tmp_path: Path) -> None:
    done = _run(tmp_path, collector)
    if collector in _DOUBLES or (collector == "kineto" and find_spec("torch")):
        assert done.returncode == 0, done.stderr
        assert "it ran" in done.stdout
        run = npuprof.load(next((tmp_path / "out").iterdir()))
        assert isinstance(run, npuprof.Profile)
        assert run.info.collector == collector
    else:
        assert done.returncode == 1
        assert re.search(r"install (the|torch)", done.stderr)
        assert "it ran" not in done.stdout
