"""Every block of code on the pages runs in a real kernel, in order, and prints what the page shows below it.

A block of ``text`` after a block of code has lines of what that prints. Figures may differ (``tests/printed.py``); a
line that ends in an ellipsis has a further rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import printed
from tests.notebook.kernel import Executed, Kernel

_ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_CODE = ("python", "ipython")

# What is not run here, and why not.
_ELSEWHERE = {
    "README.md": {
        "python3 -m venv .venv": ".ci/run runs it in a clone of its own, as another user",
        ".venv/bin/pip install": ".ci/run runs it: these tests",
    },
    "notebooks/reference/advice.md": {'{\n  "$schema"': "the form of an answer: tests/advice/test_reference.py"},
    "notebooks/reference/cluster.md": {
        "pip install": "the test's environment has it",
        "dask scheduler --scheduler-file": "it needs Slurm's srun",
    },
    "notebooks/reference/processes.md": {"%%npuprof --engines": "it needs engines: tests/session/test_engines.py"},
    "notebooks/reference/vendors.md": {
        "from npuprof.callbacks": "it needs MindSpore: tests/test_callbacks.py",
        "from pathlib": "it needs TensorFlow's adapter: tests/test_tensorflow.py",
        "with npuprof.profile(collector": "it needs pyACL: tests/session/test_streams.py",
    },
}
# What the blocks take from a user's own machine and code.
_MADE = """
import sys, types
from pathlib import Path
import npuprof
from npuprof import simulator
from npuprof.simulator import npu


def made_run(path, rank=None, steps=3):
    options = {"collector": "simulator", "level": 1, "output": path}
    with npuprof.profile(**options) as prof:
        for _ in range(steps):
            y = npu.ones((64, 64)) @ npu.ones((64, 64))
            prof.step()
    return prof.result


def double(name, **given):
    module = sys.modules[name] = types.ModuleType(name)
    vars(module).update(given)
    return module
"""
_GIVEN = {
    "README.md": """
import json, pickle, shutil
simulator.synthesise(Path("PROF_000001_..."), launches=50)
made_run("results")
shutil.make_archive("sent", "zip", "results")
Path("snapshot.pickle").write_bytes(pickle.dumps({"segments": [], "device_traces": [[]]}))
simulator.ranks(4).run(lambda rank: [rank.step(), npu.ones(8) + 1, rank.step()], "all_ranks")
data = [npu.ones(8)] * 3
def train(batch): return batch + 1
""",
    "notebooks/reference/cluster.md": """
import distributed
workers = distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None)
simulator.ranks(2).run(lambda rank: [rank.step(), npu.ones(8) + 1, rank.step()], "job")
distributed.Client = (lambda real: lambda address: real(workers))(distributed.Client)
class Cluster:
    def __init__(self, **how): self.how = how
    def scale(self, jobs): self.jobs = jobs
double("dask_jobqueue", SLURMCluster=Cluster)
def make_cluster_spec(**how):
    return {"spec": {"worker": {"spec": {"containers": [{"volumeMounts": []}]}}}}
double("dask_kubernetes")
double("dask_kubernetes.operator", KubeCluster=Cluster, make_cluster_spec=make_cluster_spec)
""",
    "notebooks/reference/compare.md": """
before, run = made_run("before"), made_run("after")
row = 0
""",
    "notebooks/reference/processes.md": """
import os, shlex
Path("launcher.py").write_text('''
import os, subprocess, sys
for rank in "01":
    subprocess.run([sys.executable, sys.argv[-1]], env={**os.environ, "RANK": rank})
''')
words = shlex.join([sys.executable, os.path.abspath("launcher.py")])
Path("torchrun").write_text(f'#!/bin/sh\\nexec {words} "$@"\\n')
Path("torchrun").chmod(0o755)
os.environ["PATH"] = os.getcwd() + os.pathsep + os.environ["PATH"]
Path("train.py").write_text("from npuprof.simulator import npu\\nfor _ in 'abc': npu.ones(8) + 1\\n")
""",
}
# A place of the page's own, and the one that the test has.
_PLACES = {"notebooks/reference/cluster.md": ("/shared/job", "job")}
# What stands in figures, and is so on every machine.
_SAYS = {"README.md": r" \d(,\d)* 3 +time.sleep.* a step.*was .*faster"}
_LONG = ("cluster", "processes")
_ELSEWHERE_TESTED = ("assistant",)  # its session: tests/assistant
_PAGES = [
    pytest.param(path.relative_to(_ROOT).as_posix(), id=path.stem, marks=[pytest.mark.long] * (path.stem in _LONG))
    for path in [_ROOT / "README.md", *sorted((_ROOT / "notebooks/reference").glob("*.md"))]
    if path.stem not in _ELSEWHERE_TESTED and _BLOCK.search(path.read_text(encoding="utf-8"))
]


class _Block(NamedTuple):
    kind: str
    text: str


def blocks(page: str) -> Iterator[_Block]:
    """Yield the blocks of code of a page, and of what it shows."""
    for kind, text in _BLOCK.findall((_ROOT / page).read_text(encoding="utf-8")):
        yield _Block(kind, text)


def cells(block: str) -> list[str]:
    """Return the cells of a block: one a line where each line is told what it does, so that each shows its value."""
    lines = block.splitlines()
    one_each = len(lines) > 2 and sum("  # " in line for line in lines) >= len(lines) - 2 and not block.startswith("%")
    return lines if one_each and not re.search(r"^ |:$", block, re.MULTILINE) else [block]


def text_of(executed: Sequence[Executed]) -> str:
    """Return all that cells have shown as text."""
    texts = [cell.stream() + "".join(data["text/plain"] + "\n" for data in cell.displays) for cell in executed]
    return "\n".join(text + (cell.value or "") for text, cell in zip(texts, executed, strict=True))


def absent(page: str, shown: str) -> list[str]:
    """Return the lines of a page that are not, in their order, what was shown."""
    lines = printed.words(shown)
    missing = []
    for line in printed.words(page):
        fits = [each == line or (line.endswith("…") and each.startswith(line[:-1].rstrip())) for each in lines]
        missing += [] if any(fits) else [line]
        lines = lines[fits.index(True) + 1 :] if any(fits) else lines
    return missing


@pytest.mark.long
@pytest.mark.kernel
@pytest.mark.parametrize("page", _PAGES)
def test_blocks_print_what_the_page_shows(page: str, tmp_path: Path) -> None:
    elsewhere, seen = dict(_ELSEWHERE.get(page, {})), ""
    with Kernel(tmp_path) as kernel:
        prepared = kernel.run(_MADE + _GIVEN.get(page, ""))
        assert prepared.status == "ok", prepared.traceback()
        if page != "README.md":
            kernel.run("%load_ext npuprof")
        executed: list[Executed] = []
        for block in blocks(page):
            left_out = next((begins for begins in elsewhere if block.text.startswith(begins)), None)
            if block.kind == "text":
                assert absent(block.text, text_of(executed)) == [], text_of(executed)
                seen += text_of(executed)
            elif left_out is not None:
                del elsewhere[left_out]
            else:
                assert block.kind in _CODE, block.text
                executed = []
                for cell in cells(block.text.replace(*_PLACES.get(page, ("", "")))):
                    executed.append(kernel.run(cell))
                    assert executed[-1].status == "ok", f"{cell}\n{executed[-1].traceback()}"
    assert elsewhere == {}, "these blocks are not on the page any more"
    assert re.search(_SAYS.get(page, ""), seen, re.DOTALL)


def test_unprinted_page_text_is_found() -> None:
    shown = "5.02 ms a step (mean of 18 steps)\n1  The host starves the NPU   4.43 ms\n"
    assert absent("13.4 ms a step (…\n1  The host starves the NPU   11.0 ms\n", shown) == []
    assert absent("1  The host starves the NPU   4 ms\n5.02 ms a step (…\n", shown) == ["# a step (…"]
    assert absent("1  Copies are not hidden by kernels   4 ms\n", shown) == ["# Copies are not hidden by kernels #"]


def test_telling_lines_are_cells_of_their_own() -> None:
    assert cells("a = 1  # one\na  # its value\nb = 2\n") == ["a = 1  # one", "a  # its value", "b = 2"]
    assert cells("for x in y:  # all\n    print(x)  # each\n") == ["for x in y:  # all\n    print(x)  # each\n"]
