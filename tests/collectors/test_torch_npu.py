"""The real torch_npu under a stand-in for CANN: what it asks of the native collector, and what becomes of its files."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import npuprof
from npuprof import tables
from tests.collectors.schedules import SCHEDULES
from tests.collectors.stand_in import Outcome, StandIn
from tests.notebook.kernel import Kernel

_RUN = ["aclprofInit", "aclprofCreateConfig", "aclprofStart", "aclprofRegisterDeviceCallback"]
_END = ["aclprofStop", "aclprofDestroyConfig", "aclprofFinalize"]


@dataclass(frozen=True)
class Asked:
    """What one set of options must ask of the native collector; no mask: nothing at all."""

    mask: int | None
    metric: int = 1
    settings: dict[int, str] = field(default_factory=dict)


_NO_METRIC = 255
_OPTIONS: dict[str, tuple[dict[str, Any], Asked]] = {
    "level none": ({"level": "none"}, Asked(0x80, _NO_METRIC)),
    "level 0": ({"level": 0, "marks": False}, Asked(0x801, _NO_METRIC)),
    "level 1": ({"level": 1, "marks": False}, Asked(0x27)),
    "level 2": ({"level": 2, "marks": False}, Asked(0x12F)),
    "marks": ({"level": 1}, Asked(0xA7)),
    "no metric": ({"aic_metrics": "none", "marks": False}, Asked(0x27, _NO_METRIC)),
    "arithmetic": ({"aic_metrics": "ArithmeticUtilization", "marks": False}, Asked(0x27, 0)),
    "memory metric": ({"aic_metrics": "Memory", "marks": False}, Asked(0x27, 2)),
    "memory L0": ({"aic_metrics": "MemoryL0", "marks": False}, Asked(0x27, 3)),
    "conflicts": ({"aic_metrics": "ResourceConflictRatio", "marks": False}, Asked(0x27, 4)),
    "memory UB": ({"aic_metrics": "MemoryUB", "marks": False}, Asked(0x27, 5)),
    "L2 metric": ({"aic_metrics": "L2Cache", "marks": False}, Asked(0x27, 6)),
    "l2": ({"l2": True, "marks": False}, Asked(0x37)),
    "memory": ({"memory": True, "marks": False}, Asked(0x1027, settings={3: "50"})),
    "io": ({"sys_io": True, "marks": False}, Asked(0x27, settings={5: "100"})),
    "links": ({"sys_interconnection": True, "marks": False}, Asked(0x27, settings={6: "50"})),
    "host": ({"host_sys": ["cpu"], "marks": False}, Asked(0x27, settings={8: "cpu"})),
    "shapes at level 0": ({"level": 0, "shapes": True, "marks": False}, Asked(0x801, _NO_METRIC)),
    "simplify": ({"data_simplification": False, "marks": False}, Asked(0x27)),
    "the host alone": ({"activities": ["cpu"]}, Asked(None)),
}

_EACH = """
import torch, npuprof
for name, options in json.load(open("options.json")).items():
    note(f"== {name}")
    with npuprof.profile(collector="torch_npu", output="recordings", **options) as session:
        torch.ones(3) + 1
    tell([name, session.recording.problems])
"""

_TRAINING = """
import gc, torch, npuprof
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))

def train():
    loss = model(torch.rand(4, 8)).sum()
    loss.backward()
    return loss
"""


@pytest.fixture(scope="module")
def by_option(stand_in: StandIn, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The native calls of each set of options, all profiled by one process."""
    directory = tmp_path_factory.mktemp("options")
    (directory / "options.json").write_text(json.dumps({name: options for name, (options, _) in _OPTIONS.items()}))
    outcome = stand_in.run(_EACH, directory)
    assert outcome.told == [[name, []] for name in _OPTIONS]
    parts = re.split(r"^== (.*)\n", "\n".join([*outcome.calls, ""]), flags=re.MULTILINE)
    return {name: calls.splitlines() for name, calls in zip(parts[1::2], parts[2::2], strict=True)}


@pytest.mark.parametrize("name", _OPTIONS)
def test_each_option_asks_for_its_mask_metric_and_settings(by_option: dict[str, list[str]], name: str) -> None:
    asked, calls = _OPTIONS[name][1], [call for call in by_option[name] if call.startswith("aclprof")]
    if asked.mask is None:
        assert calls == []
        return
    assert [call.split()[0] for call in calls if not call.startswith("aclprofSetConfig")] == _RUN + _END
    config = next(call for call in calls if call.startswith("aclprofCreateConfig"))
    assert f"aic={asked.metric} " in config
    assert config.endswith(f"mask={asked.mask:#x}")
    settings = [re.search(r"type=(\d+) val=(\S+) ", call) for call in calls if call.startswith("aclprofSetConfig")]
    assert {int(found[1]): found[2] for found in settings if found} == asked.settings
    assert len(settings) == len(asked.settings)


@pytest.fixture(scope="module")
def trained(stand_in: StandIn, tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, Path]:
    """Two steps with everything that the framework records, and where their recording is."""
    directory = tmp_path_factory.mktemp("training")
    outcome = stand_in.run(
        _TRAINING
        + """
with npuprof.profile(
    collector="torch_npu", output="out", stacks=True, shapes=True, memory=True, gc_detect_threshold=0
) as session:
    for epoch in range(2):
        with npuprof.range("epoch", "training"):
            train()
        npuprof.mark("done")
        open_range = npuprof.range_start("left open")
        gc.collect()
        session.step()
tell([str(session.recording.directory), session.recording.problems, session.recording.versions])
""",
        directory,
    )
    path, problems, versions = outcome.told[0]
    assert problems == []
    assert versions["torch_npu"].startswith("2.")
    assert versions["chip"] == "Ascend910B2"
    return outcome, Path(path)


def test_a_run_starts_and_stops_the_collector_once(trained: tuple[Outcome, Path]) -> None:
    outcome, path = trained
    calls = outcome.names()
    assert [calls.count(call) for call in (*_RUN, *_END)] == [1] * (len(_RUN) + len(_END))
    assert outcome.calls[-1] == "aclFinalize"
    assert any(call.startswith(f"aclprofInit {path}/") for call in outcome.calls)


def test_markers_and_steps_reach_the_native_layer(trained: tuple[Outcome, Path]) -> None:
    calls = "\n".join(trained[0].calls)
    assert len(re.findall(r"mstxDomainRangeStartA training epoch -> (\d+)", calls)) == 2
    assert len(re.findall(r"mstxDomainRangeEnd training \d+", calls)) == 2
    assert len(re.findall(r"aclprofMarkEx done stream=\(nil\)", calls)) == 2
    assert re.findall(r"mstxRangeStartA (ProfilerStep#\d)", calls) == [f"ProfilerStep#{step}" for step in range(3)]
    started = re.findall(r"mstxRangeStartA .* -> (\d+)", calls)
    assert sorted(re.findall(r"mstxRangeEnd (\d+)", calls)) == sorted(started)
    assert calls.rindex("mstxRangeEnd") < calls.index("aclprofStop")


def test_the_frameworks_files_become_operators_python_calls_and_steps(trained: tuple[Outcome, Path]) -> None:
    run = npuprof.load(trained[1])
    for name in tables.NAMES:
        tables.check(name, getattr(run, name))
    assert (run.info.collector, run.info.source) == ("torch_npu", "recording, torch_npu raw files")
    assert run.steps["step"].tolist() == [0, 1]
    linear = run.operators[run.operators["name"] == "aten::addmm"]
    assert linear["step"].tolist() == [0, 0, 1, 1]
    assert linear["input_shapes"].iloc[0] == "16;4,8;8,16;;"
    assert linear["stack"].str.contains("train").all()
    assert "nn.Module: Linear_0" in set(run.python["name"])
    assert not (trained[1] / "python_stacks.parquet").exists()
    collected = run.marks[run.marks["message"] == "GC"]
    assert len(collected) >= 2
    notes = run.notes
    assert "nothing of the device was recorded" in notes[notes["severity"] == "error"]["message"].iloc[0]


def test_operators_lie_within_the_steps_that_the_session_timed(trained: tuple[Outcome, Path]) -> None:
    run = npuprof.load(trained[1])
    start, end = run.info.started_ns, run.info.stopped_ns
    assert start is not None
    assert end is not None
    own = run.operators[run.operators["name"].str.startswith("aten::")]
    assert own["start_ns"].between(start, end).all()
    assert not run.notes["message"].str.contains("slewed").any()


def test_a_selected_step_is_read_by_the_sessions_number(trained: tuple[Outcome, Path]) -> None:
    run = npuprof.load(trained[1], steps=1)
    assert set(run.operators["step"].dropna()) == {1}


def test_routine_vendor_output_is_hidden(trained: tuple[Outcome, Path]) -> None:
    assert "profiler.py" not in trained[0].output
    assert "Incorrect schedule" not in trained[0].output


_MARKING = """
import npuprof
for options in {"mstx_domain_include": ["keep"]}, {"mstx_domain_exclude": ["drop", "default"]}:
    with npuprof.profile(collector="torch_npu", output="out", **options) as session:
        for domain in "keep", "drop", "":
            npuprof.mark(f"moment {domain}", domain)
            with npuprof.range(f"range {domain}", domain):
                pass
    tell(session.recording.domains)
"""


def test_domains_choose_among_markers(stand_in: StandIn, tmp_path: Path) -> None:
    outcome = stand_in.run(_MARKING, tmp_path)
    calls = outcome.calls
    assert [call.split(" stream")[0] for call in calls if "moment" in call] == 2 * ["aclprofMarkEx moment keep"]
    ranges = [call.partition(" -> ")[0] for call in calls if "range" in call]
    assert ranges == 2 * ["mstxDomainRangeStartA keep range keep"]
    # A moment reaches the native layer without its domain: the recording keeps that.
    assert outcome.told == 2 * [[["moment keep", "keep", 0], ["range keep", "keep", 0]]]


def test_flops_are_ranges_that_the_native_layer_takes_around_each_operator(stand_in: StandIn, tmp_path: Path) -> None:
    outcome = stand_in.run(
        """
import torch, npuprof
layer, given, left = torch.nn.Linear(8, 16), torch.rand(4, 8), torch.rand(3, 5)
for options in {}, {"flops": True}, {"flops": True, "mstx_domain_include": ["train"]}:
    note("== profiled")
    with npuprof.profile(collector="torch_npu", output="out", **options):
        layer(given)
        left @ left.T
        torch.mm(left, left.T)
""",
        tmp_path,
    )
    without, with_flops, chosen = "\n".join(outcome.calls).split("== profiled\n")[1:]
    products = ["1024-linear", "90-mm"]  # 2 * 4 * 8 * 16; 2 * 3 * 5 * 3; an operator sign is no function to hook
    assert "mfu_flops" not in without
    for calls in (with_flops, chosen):
        assert re.findall(r"mstxDomainRangeStartA mfu_flops (\S+) ->", calls) == products
        assert len(re.findall(r"mstxDomainRangeEnd mfu_flops ", calls)) == len(products)


def test_a_marker_on_a_stream_is_noted_by_the_device(stand_in: StandIn, tmp_path: Path) -> None:
    outcome = stand_in.run(
        """
import torch_npu, npuprof
with npuprof.profile(collector="torch_npu", output="out"):
    stream = torch_npu.npu.current_stream()
    npuprof.mark("here", stream=stream.npu_stream)
    tell(stream.npu_stream)
""",
        tmp_path,
    )
    assert f"aclprofMarkEx here stream={outcome.told[0]:#x}" in outcome.calls


def test_a_run_without_steps_has_none(stand_in: StandIn, tmp_path: Path) -> None:
    outcome = stand_in.run(
        _TRAINING
        + """
with npuprof.profile(collector="torch_npu", output="out") as session:
    train()
run = session.result
tell([len(run.steps), int(run.operators["step"].notna().sum()), len(run.operators) > 0])
""",
        tmp_path,
    )
    assert outcome.told == [[0, 0, True]]


def test_each_cycle_of_a_schedule_is_a_recording(stand_in: StandIn, tmp_path: Path) -> None:
    outcome = stand_in.run(
        _TRAINING
        + """
schedule = npuprof.schedule(wait=1, warmup=1, active=2, repeat=2)
with npuprof.profile(collector="torch_npu", output="out", schedule=schedule) as session:
    for _ in range(8):
        train()
        session.step()
tell([run.steps["step"].tolist() for run in session.results])
tell([sorted(set(run.operators["step"].dropna().tolist())) for run in session.results])
""",
        tmp_path,
    )
    assert outcome.told == [[[2, 3], [6, 7]], [[2, 3], [6, 7]]]
    warmed = [*_RUN[:2], "aclprofWarmup", *_RUN[2:]]
    assert outcome.names() == 2 * (warmed + _END)
    results = sorted((tmp_path / "out").glob("*/*_ascend_pt"))
    # The vendor's own viewers know the steps by the same numbers.
    assert [npuprof.load(result).steps["step"].tolist() for result in results] == [[2, 3], [6, 7]]


_BY_THE_VENDOR = """
import torch, torch_npu, npuprof
from torch_npu import profiler

def own(plan, steps, output):
    how = {
        "schedule": profiler.schedule(**plan),
        "on_trace_ready": profiler.tensorboard_trace_handler(output, analyse_flag=False),
        "experimental_config": profiler._ExperimentalConfig(mstx=True, profiler_level=profiler.ProfilerLevel.Level1),
    }
    with profiler.profile(**how) as prof:
        for _ in range(steps):
            torch.ones(3) + 1
            prof.step()

def ours(plan, steps, output):
    with npuprof.profile(collector="torch_npu", output=output, schedule=npuprof.schedule(**plan)) as prof:
        for _ in range(steps):
            torch.ones(3) + 1
            prof.step()

for number, (plan, steps) in enumerate(json.load(open("schedules.json"))):
    for profile in own, ours:
        note(f"== {profile.__name__} {number}")
        profile(plan, steps, os.path.abspath(f"{profile.__name__}_{number}"))
"""


@pytest.fixture(scope="module")
def scheduled(stand_in: StandIn, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The results of every schedule by the vendor's profiler and by ours, and the native calls of each."""
    directory = tmp_path_factory.mktemp("schedules")
    (directory / "schedules.json").write_text(json.dumps(SCHEDULES))
    calls = "\n".join(stand_in.run(_BY_THE_VENDOR, directory).calls)
    parts = re.split(r"^== (.*)\n", calls, flags=re.MULTILINE)
    return directory, dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(SCHEDULES)))
def test_a_schedule_leaves_the_steps_that_the_vendors_profiler_leaves(
    scheduled: tuple[Path, dict[str, str]], number: int
) -> None:
    directory, calls = scheduled
    marked, recorded = {}, {}
    for whose in "own", "ours":
        windows = re.findall(r"^aclprofStart .*?^aclprofStop", calls[f"{whose} {number}"], re.MULTILINE | re.DOTALL)
        marked[whose] = [re.findall(r"mstxRangeStartA (\S+)|(mstxRangeEnd)", window) for window in windows]
        results = sorted((directory / f"{whose}_{number}").glob("**/*_ascend_pt"))
        recorded[whose] = [npuprof.load(result).steps["step"].tolist() for result in results]
    assert marked["ours"] == marked["own"]
    assert recorded["ours"] == recorded["own"] != []


def test_warm_up_leaves_nothing_without_steps(stand_in: StandIn, tmp_path: Path) -> None:
    outcome = stand_in.run(
        _TRAINING
        + """
from npuprof.errors import SessionError
for steps in 2, 1:
    session = npuprof.profile(
        collector="torch_npu", output=f"out{steps}", schedule=npuprof.schedule(wait=1, warmup=1, active=1, repeat=1)
    ).start()
    for step in range(steps):
        note(f"== {step}")
        train()
        session.step()
    note("== ended")
    try:  # the vendor ends a warm-up that nothing follows by a start and a stop
        session.stop()
    except SessionError:
        tell(os.path.exists(f"out{steps}"))
train()
with npuprof.profile(collector="torch_npu", output="out", level=0, marks=False) as session:
    train()
tell(session.recording.problems)
""",
        tmp_path,
    )
    assert outcome.told == [False, []]
    starts = [call for call in outcome.calls if call.startswith("aclprofStart")]
    assert starts[-1].endswith("mask=0x801"), "the options of the warm-up must not be those of the next run"
    parts = [part.splitlines()[1:] for part in "\n".join(outcome.calls).split("== ")[1:]]
    names = [[line.split()[0] for line in part if line.startswith("aclprof")] for part in parts]
    warmed = [*_RUN[:2], "aclprofWarmup"]
    assert names == [warmed, _RUN[2:], _END, warmed, [*_RUN[2:], *_END, *_RUN, *_END]]


def test_an_exception_in_the_profiled_code_leaves_nothing_running(stand_in: StandIn, tmp_path: Path) -> None:
    outcome = stand_in.run(
        _TRAINING
        + """
try:
    with npuprof.profile(collector="torch_npu", output="out", stacks=True):
        train()
        raise KeyboardInterrupt
except KeyboardInterrupt:
    note("== ended")
with npuprof.profile(collector="torch_npu", output="out") as session:
    train()
tell(len(session.result.operators) > 0)
""",
        tmp_path,
    )
    assert outcome.told == [True]
    before = outcome.calls[: outcome.calls.index("== ended")]
    assert [call.split()[0] for call in before if call.startswith("aclprof")] == _RUN + _END
    assert outcome.names() == 2 * (_RUN + _END)


def test_session_facts_are_in_torch_npu_files(stand_in: StandIn, tmp_path: Path) -> None:
    outcome = stand_in.run(
        _TRAINING
        + """
schedule = npuprof.schedule(wait=1, warmup=1, active=1, repeat=1, skip_first_wait=True)
with npuprof.profile(collector="torch_npu", output="out", schedule=schedule, stacks=True) as session:
    session.add_metadata("lr", [0.1, {"warm": True}])
    for _ in range(3):
        with npuprof.range("step"):
            train()
        session.step()
session.export_stacks("stacks.txt")
tell(session.recording.problems)
""",
        tmp_path,
    )
    assert outcome.told == [[]]
    (result,) = (tmp_path / "out").glob("*/*_ascend_pt")
    assert json.loads((result / "profiler_metadata.json").read_text())["lr"] == [0.1, {"warm": True}]
    info = json.loads((result / "profiler_info.json").read_text())
    numbers = {"wait": 1, "warmup": 1, "active": 1, "repeat": 1, "skip_first": 0, "skip_first_wait": 1}
    assert info["config"]["common_config"]["schedule"] == numbers
    stacks = (tmp_path / "stacks.txt").read_text()
    assert "script.py" in stacks
    assert "npuprof/" not in stacks


def test_a_start_that_fails_says_why_and_leaves_nothing(stand_in: StandIn, tmp_path: Path) -> None:
    outcome = stand_in.run(
        _TRAINING
        + """
from npuprof.errors import CollectorError
import torch_npu
interface = torch_npu.profiler.profiler_interface
native = interface._start_profiler

def broken(*arguments):
    native(*arguments)
    raise RuntimeError("no more handles")

interface._start_profiler = broken
try:
    with npuprof.profile(collector="torch_npu", output="out"):
        train()
except CollectorError as error:
    tell([str(error), os.path.exists("out")])
note("== ended")
interface._start_profiler = native
with npuprof.profile(collector="torch_npu", output="out") as session:
    train()
tell([session.recording.problems, len(session.result.operators) > 0])
""",
        tmp_path,
    )
    message, left = outcome.told[0]
    assert "torch_npu.profiler.profile.start failed: Call start failed. Exception: no more handles" in message
    assert not left
    assert outcome.told[1] == [[], True]
    before = outcome.calls[: outcome.calls.index("== ended")]
    assert [call.split()[0] for call in before if call.startswith("aclprof")] == _RUN + _END


def test_a_machine_without_a_device_is_reported(stand_in: StandIn, tmp_path: Path) -> None:
    outcome = stand_in.run(
        """
import npuprof
from npuprof.errors import CollectorError
try:
    with npuprof.profile(collector="torch_npu", output="out"):
        pass
except CollectorError as error:
    tell([str(error), os.path.exists("out")])
""",
        tmp_path,
        CANN_DEVICES="0",
    )
    message, left = outcome.told[0]
    assert "No NPUs are available): check the device with `npu-smi info`" in message
    assert not left
    assert outcome.names() == []


def test_a_profiler_of_the_users_own_is_respected(stand_in: StandIn, tmp_path: Path) -> None:
    outcome = stand_in.run(
        _TRAINING
        + """
import torch_npu
from npuprof.errors import CollectorError
from torch_npu.profiler import profile, tensorboard_trace_handler
own = profile(on_trace_ready=tensorboard_trace_handler(os.getcwd() + "/own", analyse_flag=False))
with npuprof.profile(collector="torch_npu", output="out"):
    train()
own.start()
note("== own")
try:
    with npuprof.profile(collector="torch_npu", output="out"):
        train()
except CollectorError as error:
    tell(str(error))
note("== refused")
own.stop()
tell([len(os.listdir("own")), len(os.listdir("out"))])
""",
        tmp_path,
    )
    assert "a profiler of torch_npu is collecting in this process already" in outcome.told[0]
    assert outcome.told[1] == [1, 1]
    between = outcome.calls[outcome.calls.index("== own") + 1 : outcome.calls.index("== refused")]
    assert between == []


_SECOND = """
import threading, torch, torch_npu, npuprof
def own():
    with {profiler} as profiler: torch.ones(4) @ torch.ones(4)
    tell({told})
with npuprof.profile(collector="torch_npu", output="out"{options}) as session:
    for step in range(3):
        torch.ones(4) @ torch.ones(4)
        if step == {at}:
            note("== own")
            {call}
            note("== ended")
        session.step()
for run in session.results:
    tell(int((run.operators["name"] == "aten::dot").sum()))
    tell([message for message in run.notes["message"] if "the code started" in message])
with npuprof.profile(collector="torch_npu", output="out") as session:
    torch.ones(4) @ torch.ones(4)
tell(int((session.result.operators["name"] == "aten::dot").sum()))
"""
_OF_TORCH_NPU = (
    "torch_npu.profiler.profile(on_trace_ready=torch_npu.profiler.tensorboard_trace_handler(os.getcwd() + '/own', "
    "analyse_flag=False))"
)
_OWN = {
    "torch": (
        "torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])",
        "sum(one.name == 'aten::dot' for one in profiler.events())",
        1,
    ),
    "autograd": (
        "torch.autograd.profiler.profile()",
        "sum(one.name == 'aten::dot' for one in profiler.function_events)",
        1,
    ),
    "torch_npu": (_OF_TORCH_NPU, "len(os.listdir('own'))", 1),
}
_MISSING = (
    "the code started a profiler of torch or torch_npu itself, which has one at a time: what came after is missing"
)


@pytest.mark.slow
@pytest.mark.parametrize("own", _OWN)
@pytest.mark.parametrize(("warmup", "at"), [(False, 1), (True, 0), (True, 1)])
def test_second_profiler_spares_the_first(stand_in: StandIn, tmp_path: Path, own: str, warmup: bool, at: int) -> None:
    profiler, told, expected = _OWN[own]
    options = ", schedule=npuprof.schedule(wait=0, warmup=1, active=1, repeat=1)" if warmup else ""
    script = _SECOND.format(profiler=profiler, told=told, options=options, at=at, call="own()")
    outcome = stand_in.run(script, tmp_path)
    of_own, *of_run, again = outcome.told
    assert of_own == expected
    assert of_run == ([2, [_MISSING]] if not warmup else [1, []] if at == 0 else [1, [_MISSING]])
    assert again == 1
    names = outcome.names()
    assert (
        names.count("aclprofInit")
        == names.count("aclprofFinalize")
        == (4 if own == "torch_npu" else 3) - (not warmup or at == 1)
    )
    between = outcome.calls[outcome.calls.index("== own") + 1 : outcome.calls.index("== ended")]
    ours, theirs = (
        next((at for at, call in enumerate(between) if call.startswith(name)), -1)
        for name in ("aclprofFinalize", "aclprofInit")
    )
    assert ours >= 0
    assert own != "torch_npu" or ours < theirs


@pytest.mark.slow
@pytest.mark.parametrize("own", _OWN)
def test_a_second_profiler_of_another_thread_begins_as_without_ours(
    stand_in: StandIn, tmp_path: Path, own: str
) -> None:
    profiler, told, expected = _OWN[own]
    call = "thread = threading.Thread(target=own); thread.start(); thread.join()"
    outcome = stand_in.run(_SECOND.format(profiler=profiler, told=told, options="", at=1, call=call), tmp_path)
    of_own, recorded, notes, again = outcome.told
    assert (of_own, again) == (expected, 1)
    if own == "torch_npu":
        assert "on another thread, which ends this one's" in notes[0]
    else:
        assert (recorded, notes) == (3, [])


def test_environment_variable_starts_at_torch_npu_import(stand_in: StandIn, tmp_path: Path) -> None:
    outcome = stand_in.run(
        """
import npuprof
note("== imported")
import torch  # which loads torch_npu
note("== running")
torch.ones(3) + 1
""",
        tmp_path,
        NPUPROF_OPTIONS=json.dumps({"output": "out"}),
        TORCH_DEVICE_BACKEND_AUTOLOAD="1",
    )
    assert [call for call in outcome.names() if call in (*_RUN, *_END)] == _RUN + _END
    calls = [call.split()[0] for call in outcome.calls]
    assert calls[0] == "=="
    assert calls.index("aclprofStart") < len(calls) - 1 - calls[::-1].index("==")
    assert "collecting with torch_npu (torch_npu is imported in this process)" in outcome.output
    (recording,) = (tmp_path / "out").iterdir()
    assert "aten::ones" in set(npuprof.load(recording).operators["name"])


@pytest.mark.kernel
@pytest.mark.slow
def test_a_cell_that_imports_torch_npu_itself_is_profiled_with_it(
    stand_in: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(stand_in.libraries))
    monkeypatch.setenv("CANN_CALLS", str(tmp_path / "calls.log"))
    with Kernel(tmp_path) as kernel:
        assert kernel.run("%load_ext npuprof").status == "ok"
        done = kernel.run("%%npuprof\nimport torch, torch_npu\ntorch.ones(3) + 1")
        assert done.status == "ok", done.traceback()
        told = kernel.run(
            "import npuprof\nrun = npuprof.last()\nrun.info.reason, 'aten::ones' in set(run.operators.name)"
        )
        assert told.value == "('torch_npu is installed, and the code imports torch_npu', True)"


@pytest.mark.kernel
@pytest.mark.slow
def test_the_cell_magic_in_a_real_kernel(stand_in: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "calls.log"
    monkeypatch.setenv("LD_LIBRARY_PATH", str(stand_in.libraries))
    monkeypatch.setenv("CANN_CALLS", str(log))
    with Kernel(tmp_path) as kernel:
        assert kernel.run("%load_ext npuprof\nimport torch, torch_npu").status == "ok"
        done = kernel.run("%%npuprof --stacks --level 2\nprint('in the cell')\ntorch.ones(3) + 1")
        assert done.status == "ok", done.traceback()
        assert done.has_report
        assert done.stream() == "in the cell\n"
        told = kernel.run("import npuprof\nrun = npuprof.last()\nrun.info.collector, len(run.operators) > 0")
        assert told.value == "('torch_npu', True)"
        failed = kernel.run("%%npuprof\nraise ValueError('from the cell')")
        assert failed.status == "error"
        assert "from the cell" in failed.traceback()
        kernel.wait_until_nothing_is_aborted()
        assert kernel.run("npuprof.last().info.failed").value == "'ValueError: from the cell'"
    calls = [line.split()[0] for line in log.read_text().splitlines() if line.startswith("aclprof")]
    assert calls == 2 * (_RUN + _END)
    assert "mask=0x1af" in log.read_text()


def test_interrupts_reach_python_while_torch_npu_collects(stand_in: StandIn, tmp_path: Path) -> None:
    script = """
import signal, torch, npuprof
signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever runs the tests may ignore it
with npuprof.profile(collector="torch_npu", output="recordings"):
    try:
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(100_000):
            pass
        tell("nothing came")
    except KeyboardInterrupt:
        tell("interrupted")
"""
    outcome = stand_in.run(script, tmp_path, CANN_SIGINT="1")
    assert "SIGINT taken" in outcome.calls
    assert outcome.told == ["interrupted"]
