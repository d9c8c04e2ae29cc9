"""Dynamic profiling with the real torch_npu, under a stand-in for CANN: the native calls that a change makes."""

from __future__ import annotations

import re
from pathlib import Path

import npuprof
from tests.collectors.stand_in import StandIn

_TRAINING = """
import torch, npuprof
x = torch.ones(3)
npuprof.dynamic.monitor._CHEAP_NS = 1 << 62  # a busy machine makes looks slow, and so seldom
npuprof.dynamic.init("config", keys="torch_npu", collector="torch_npu")

def train(steps):
    global x
    for _ in range(steps):
        x = x * 2 + 1
        npuprof.dynamic.step()

train(3)
note("== one")
npuprof.dynamic.edit("config", start_step=-1, active=2, warmup=1, profiler_level="Level1", profile_memory=True)
train(6)
note("== two")
npuprof.dynamic.edit("config", start_step=12, active=1, warmup=0, profiler_level="Level_none", mstx=True,
                     profile_memory=False)
train(6)
note("== three")
open("config/profiler_config.json", "w").write('{"start_step": -1, "experimental_con')
train(2)
tell(float(x[0]))
"""


def test_each_change_makes_its_calls_once_and_the_training_goes_on(stand_in: StandIn, tmp_path: Path) -> None:
    outcome = stand_in.run(_TRAINING, tmp_path, RANK="3")
    assert len(outcome.told) == 1
    _, one, two, three = re.split(r"^== .*$", "\n".join(outcome.calls), flags=re.MULTILINE)
    for part, mask in ((one, "0x1027"), (two, "0x80")):
        calls = [line.split()[0] for line in part.splitlines() if line.startswith("aclprof")]
        assert [calls.count(f"aclprof{name}") for name in ("Init", "Start", "Stop", "Finalize")] == [1, 1, 1, 1]
        assert f"mask={mask}\n" in part
    assert "aclprof" not in three
    found = {path.parent.parent.name: path.parent for path in tmp_path.glob("rank*/*/recording.json")}
    assert set(found) == {"rank3_start5_stop6", "rank3_start12_stop12"}
    run = npuprof.load(found["rank3_start5_stop6"])
    assert (run.operators["name"] == "aten::mul").sum() == 2
    # The vendor's own step marks have the numbers of the training too.
    assert [run.steps["step"].tolist(), set(run.operators["step"].dropna())] == [[5, 6], {5, 6}]
    sixth = npuprof.load(found["rank3_start5_stop6"], steps=[6]).operators
    assert (sixth["name"] == "aten::mul").sum() == 1
    assert "mstxRangeStartA ProfilerStep#12 " in two
    (log,) = (tmp_path / "config" / "log").iterdir()
    assert log.name.startswith("npuprof_rank3_")
    assert "half written" in log.read_text()
