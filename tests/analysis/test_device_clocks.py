"""The clock of a device beside that of the host: seen by what causality forbids, and corrected for every analysis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import npuprof
from npuprof.analysis.accounting import IDLE, account
from npuprof.analysis.device_clocks import clock_text, device_clocks, on_host_clock, to_device, to_host
from npuprof.analysis.idle_causes import UNKNOWN
from npuprof.arrays import Int64
from npuprof.errors import NpuprofError
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.info import DeviceClock
from npuprof.tables.notes import Notes
from tests import factories
from tests.budget import examples
from tests.played import Do, Machine
from tests.sources.kineto.traces import KinetoTrace
from tests.wrong_clocks import with_device_clock

_HOUR = 3_600_000_000_000
_SYNC = Do("sync", host=3_000)
_LAUNCHES = [Do("operator", f"aten::op{number}", 5_000) for number in range(3)]

_launch = st.builds(
    Do,
    st.just("launch"),
    st.sampled_from(["MatMul", "Add", "Cast"]),
    host=st.integers(500, 20_000),
    device=st.integers(500, 400_000),
    stream=st.sampled_from([2, 2, 2, 3]),
)
_sync = st.builds(Do, st.just("sync"), host=st.integers(500, 5_000), stream=st.just(2))
_python = st.builds(Do, st.just("python"), host=st.integers(0, 300_000))
_programs = st.lists(
    st.lists(st.one_of(_launch, _launch, _launch, _sync, _python), min_size=1, max_size=25), min_size=1, max_size=4
)
_errors = st.one_of(st.integers(-(10**9) + 10**7, 10**9 - 10**7), st.integers(-100_000, 100_000))


def profile(tables: Mapping[str, pd.DataFrame]) -> Profile:
    return Profile(Decoded(dict(tables), factories.info(chip=""), Notes()))


def clock(tables: Mapping[str, pd.DataFrame]) -> DeviceClock:
    (only,) = device_clocks(tables)
    return only


def long_run(steps: int, pause_ns: int) -> Profile:
    """Steps that begin with kernels for an idle device, and end when it has finished."""
    step = [Do("launch", "MatMul", 6_000, 40_000), Do("launch", "Add", 6_000, 250_000), _SYNC]
    return Machine().run([[*step, Do("python", host=pause_ns)] for _ in range(steps)])


@settings(max_examples=examples(60))
@given(_programs, st.booleans())
def test_a_right_clock_is_left_alone(programs: list[list[Do]], queue: bool) -> None:
    for seen in device_clocks(Machine(queue=queue).run(programs).tables):
        assert (seen.early, seen.late, seen.left_out, seen.shift_ns, seen.drift_ppb, seen.joined) == (
            0,
            0,
            0,
            0,
            0,
            True,
        )
        assert not clock_text(seen)


@settings(max_examples=examples(80))
@given(_programs, _errors)
@example([[Do("launch", "MatMul", 2_000, 300_000), _SYNC]] * 3, -13_000)
@example([[Do("launch", "MatMul", 2_000, 300_000), _SYNC]] * 3, 20_000_000)
def test_wrong_clock_is_corrected_within_causality(programs: list[list[Do]], wrong: int) -> None:
    run = Machine().run(programs)
    if not len(run.links):
        return
    wrong_run = profile(with_device_clock(run.tables, wrong))
    seen = clock(wrong_run.tables)
    assert seen.joined
    remaining = seen.shift_ns + wrong
    if seen.most_ns is None:  # no call waited for the device
        assert seen.least_ns is not None
        assert seen.shift_ns == max(seen.least_ns, 0)
    else:
        assert seen.least_ns is not None
        assert abs(remaining) <= seen.most_ns - seen.least_ns
    assert not wrong_run.launches["launch_delay_ns"].lt(0).any() or seen.launches >= 20  # of which some may stay out
    # Whatever the breakdown joins with the host is on the host's clock, to the nanosecond.
    same = account(with_device_clock(run.tables, remaining))
    pd.testing.assert_frame_equal(wrong_run.accounting.breakdown(), same.breakdown())


@pytest.mark.parametrize("wrong", [-900_000_000, -20_000_000, -13_000, 20_000_000, 900_000_000])
def test_a_breakdown_does_not_depend_on_the_clock_of_the_device(wrong: int) -> None:
    run = long_run(10, 400_000)
    right, seen = run.breakdown(), profile(with_device_clock(run.tables, wrong))
    keys = ["step", "part", "cause"]
    sides = [frame.groupby(keys, observed=True)["duration_ns"].sum() for frame in (right, seen.breakdown())]
    difference = sides[0].sub(sides[1], fill_value=0).abs()
    (only,) = seen._clocks
    assert only.least_ns is not None
    assert only.most_ns is not None
    assert difference.max() <= only.most_ns - only.least_ns < 20_000
    by_step = seen.by("step").set_index("step")["total_ns"].sort_index()
    computing = seen.breakdown().query("part == 'computing'").set_index("step")["duration_ns"]
    assert by_step.to_dict() == computing.to_dict()
    assert only.shift_ns == pytest.approx(-wrong, abs=10_000)
    assert seen.kernels["start_ns"].tolist() == (run.kernels["start_ns"] + wrong).tolist()  # as recorded


@pytest.mark.parametrize("ppm", [100, -100])
def test_a_clock_that_drifts_is_corrected_along_a_line(ppm: int) -> None:
    run = long_run(200, 100_000_000)  # 20 s, in which it drifts by 2 ms
    wrong = with_device_clock(run.tables, 0, ppm)
    seen = clock(wrong)
    assert seen.joined
    assert seen.drift_ppb == pytest.approx(-1_000 * ppm, rel=0.01)
    moved = on_host_clock(wrong, [seen])["kernels"]
    assert (moved["start_ns"] - run.kernels["start_ns"]).abs().max() < 10_000
    assert (moved["duration_ns"] - run.kernels["duration_ns"]).abs().max() <= 2
    assert "each second" in clock_text(seen)
    moments: Int64 = wrong["kernels"]["start_ns"].to_numpy(np.int64)
    assert np.abs(to_device(seen, to_host(seen, moments)) - moments).max() <= 2


@pytest.mark.parametrize("wrong", [-_HOUR, -2_000_000_000, 2_000_000_000, _HOUR])
def test_beyond_a_second_nothing_is_guessed(wrong: int) -> None:
    right = long_run(5, 400_000)
    numbered = right.kernels.assign(step=pd.array(np.repeat(np.arange(5), 2), "Int64"))
    run = profile(with_device_clock({**right.tables, "kernels": numbered}, wrong))
    (seen,) = run._clocks
    assert not seen.joined
    assert seen.shift_ns == seen.drift_ppb == 0
    assert "device and host times cannot be joined" in clock_text(seen)
    # Steps are those that launched the kernels, and what the device did in them is known all the same.
    parts = run.breakdown()
    computing = parts[parts["part"] == "computing"].set_index("step")["duration_ns"]
    assert (
        computing.to_dict()
        == run.by("step").set_index("step")["total_ns"].to_dict()
        == dict.fromkeys(range(5), 290_000)
    )
    idle = parts[parts["part"].isin(IDLE)]
    assert set(idle["cause"]) <= {UNKNOWN}
    assert run.launches["launch_delay_ns"].isna().all()
    assert run.launches["launch_ns"].notna().all()
    found = run.advice()["host_bound"]
    assert found.state == "cannot tell"
    assert "cannot be joined" in found.collect
    with pytest.raises(NpuprofError, match="cannot be joined"):
        run.what_if(kernel={"Add": 0})


def test_late_times_need_a_wait() -> None:
    run = Machine().run([[Do("launch", "Add", 6_000, 5_000)] * 8])
    late = clock(with_device_clock(run.tables, 20_000_000))
    assert (late.shift_ns, late.waits, late.most_ns, late.joined) == (0, 0, None, True)
    assert clock(with_device_clock(run.tables, -20_000_000)).shift_ns > 0
    hours = clock(with_device_clock(run.tables, _HOUR))  # no queue of a stream is that deep
    assert not hours.joined
    assert "starts 3,600 s after its launch" in clock_text(hours)


def test_wrong_links_are_no_evidence_of_a_wrong_clock() -> None:
    run = long_run(300, 200_000)
    links, rng = run.links, np.random.default_rng(7)
    rows = links["target_row"].to_numpy(np.int64, copy=True)
    wrong = rng.choice(len(rows), 60, replace=False)
    rows[wrong] = rng.permutation(rows[wrong])
    seen = clock({**run.tables, "links": links.assign(target_row=rows)})
    assert seen.early > 20
    assert seen.left_out == seen.early
    assert (seen.shift_ns, seen.drift_ppb, seen.joined) == (0, 0, True)
    assert f"of which {seen.left_out} do not count" in clock_text(seen)
    early = with_device_clock({**run.tables, "links": links.assign(target_row=rows)}, -50_000)
    assert clock(early).shift_ns == pytest.approx(50_000, abs=10_000)


def test_each_device_has_its_own_clock() -> None:
    first, second = Machine().run([[Do("launch", "Add", 6_000, 5_000), _SYNC]] * 4), long_run(4, 1_000)
    both = dict(first.tables)
    for name in ("kernels", "api", "links", "steps"):
        other = second.tables[name]
        if name == "kernels":
            other = other.assign(device_id=1)
        if name == "api":
            other = other.assign(thread_id=200)
        if name == "links":
            other = other.assign(
                source_row=other["source_row"] + len(first.api), target_row=other["target_row"] + len(first.kernels)
            )
        both[name] = pd.concat([both[name], other], ignore_index=True).astype(
            {column: "category" for column in other if isinstance(other[column].dtype, pd.CategoricalDtype)}
        )
    assert [seen.shift_ns for seen in device_clocks(both)] == [0, 0]
    seen = device_clocks(with_device_clock(both, -500_000, device=1))
    assert [one.device_id for one in seen] == [0, 1]
    assert seen[0].shift_ns == 0
    assert seen[1].shift_ns == pytest.approx(500_000, abs=10_000)
    moved = on_host_clock(with_device_clock(both, -500_000, device=1), seen)["kernels"]
    assert moved["start_ns"].tolist()[:4] == both["kernels"]["start_ns"].tolist()[:4]


def test_asynchronous_work_belongs_to_its_step() -> None:
    """A kernel that a step launched may run between that step and the next, and into the next, or after the last."""
    launch = Do("launch", "Add", 1_000, 30_000)
    run = Machine().run([[launch, launch], [Do("python", host=100_000)], [launch]])
    steps = run.steps.assign(start_ns=run.steps["start_ns"] + [0, 40_000, 200_000])
    apart = profile({**run.tables, "steps": steps, "kernels": run.kernels.assign(step=pd.array([0, 0, 2], "Int64"))})
    starts, begins = apart.kernels["start_ns"].tolist(), steps["start_ns"].tolist()
    assert begins[0] + steps["duration_ns"].iloc[0] < starts[1] < begins[1] < starts[1] + 30_000 < starts[2] < begins[2]
    assert apart.launches["step"].tolist() == apart.by("step")["step"].repeat([2, 1]).tolist() == [0, 0, 1]
    computing = apart.breakdown().query("part == 'computing'").set_index("step")["duration_ns"]
    # The second kernel is cut where the next step begins.
    assert computing.to_dict() == {0: begins[1] - starts[0], 1: 90_000 - (begins[1] - starts[0])}
    open_end = profile({**apart.tables, "steps": steps.iloc[:1]})
    assert open_end.launches["step"].isna().tolist() == [False, True, True]  # nothing says where the last step ends
    several = profile({**apart.tables, "steps": steps.assign(step=pd.array([0, 2, 3], "Int64"))})
    assert several.launches["step"].isna().tolist() == [False, True, False]  # nor one before a gap in the numbers


def test_shift_is_told_and_kept(tmp_path: Path) -> None:
    trace = KinetoTrace(head={"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "GPU X"}]})
    for number in range(6):
        moment = 100.0 * number
        trace.slice("user_annotation", f"ProfilerStep#{number}", moment, 99, External_id=number)
        trace.slice("cuda_runtime", "cudaLaunchKernel", moment + 40, 5, correlation=number + 1)
        trace.on_gpu("kernel", "gemm", moment + 25 + number, 20, 0, stream=7, correlation=number + 1)
    run = npuprof.load(trace.write(tmp_path / "t.json"))
    (seen,) = run.info.clocks
    assert (seen.launches, seen.early, seen.earliest_ns, seen.shift_ns) == (6, 6, 15_000, 15_000)
    text = clock_text(seen)
    assert text == (
        "6 of 6 tasks of device 0 start before the calls that launched them, by up to 15.0 µs. "
        "Analyses add 15.0 µs to the device's times; tables keep the recorded times"
    )
    assert run.notes.query("source == 'clock'")[["severity", "message"]].values.tolist() == [["warning", text]]
    assert "start before the calls" in run._repr_html_()
    again = npuprof.load(run.save(tmp_path / "kept"))
    assert again.info.clocks == run.info.clocks
    assert again.notes.equals(run.notes)
    pd.testing.assert_frame_equal(again.breakdown(), run.breakdown())
    part = npuprof.load(tmp_path / "t.json", steps=[3])
    assert part.info.clocks == run.info.clocks  # a part of the run has the clock of all of it


def test_single_task_is_in_the_singular() -> None:
    clock = DeviceClock(0, launches=1, early=1, earliest_ns=5_000, waits=9, late=1, latest_ns=7_000)
    assert clock_text(clock).startswith(
        "1 of 1 task of device 0 starts before the call that launched it, by 5.00 µs, and "
        "1 of 9 calls that waited for device 0 returns before its tasks end, by up to 7.00 µs"
    )


def test_evidence_has_the_recorded_times() -> None:
    run = profile(with_device_clock(long_run(6, 2_000_000).tables, -300_000))
    rows = run.advice()["small_kernels"].rows, run.advice()["host_bound"].rows
    assert run._clocks[0].shift_ns > 250_000
    for found in run.advice().findings:
        if found.table in run.tables and len(found.rows):
            recorded = run.tables[found.table].loc[found.rows.index]
            assert found.rows["start_ns"].tolist() == recorded["start_ns"].tolist()
    assert any(map(len, rows))


_PUBLISHED = {
    "torch_npu/text/level1/rank0_ascend_pt": 11_132,
    "torch_npu/text/level1/rank1_ascend_pt": 23_936,
    "torch_npu/text/level0/rank0_ascend_pt": 0,
    "torch_npu/db/level1/rank0_ascend_pt": 6_210,
    "torch_npu/db/level1/rank1_ascend_pt": 2_954,
    "torch_npu/db/level0/rank0_ascend_pt": 24_405,
    "torch_npu/cann7_2023/trace_view.json": 17_116,
    "raw/sliced_2k": 0,
    "raw/model_step": 0,
    "raw/everything": 0,
    "kineto/nccl/nccl_data.json.gz": 0,
    "kineto/sendrecv/rank0.json.gz": 0,
    "kineto/two_ranks/rank-0.json.gz": 0,
    "kineto/two_ranks/rank-1.json.gz": 0,
    "kineto/amd/mi250.json.gz": 0,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", _PUBLISHED)
def test_real_results_move_by_what_their_launches_show(samples: Path, name: str) -> None:
    run = npuprof.load(samples / name)
    assert bool(len(run.notes.query("source == 'clock'"))) == bool(_PUBLISHED[name])
    (seen,) = run.info.clocks
    assert seen.earliest_ns == _PUBLISHED[name]
    assert 0 <= seen.shift_ns <= _PUBLISHED[name]
    assert not seen.drift_ppb
    assert seen.joined
    assert not seen.left_out
    assert bool(seen.shift_ns) == bool(_PUBLISHED[name])


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [-20_000_000, 20_000_000, -999_000, 999_000])
@pytest.mark.parametrize("name", ["text/level1/rank0_ascend_pt", "db/level1/rank1_ascend_pt"])
def test_real_breakdown_ignores_device_clock(samples: Path, name: str, wrong: int) -> None:
    run = npuprof.load(samples / "torch_npu" / name)
    moved = Profile(Decoded(with_device_clock(run.tables, wrong), replace(run.info, clocks=[])))
    (seen,) = moved._clocks
    assert seen.least_ns is not None
    assert seen.most_ns is not None
    sides = [
        frame.groupby("part", observed=True)["duration_ns"].sum() for frame in (run.breakdown(), moved.breakdown())
    ]
    difference = sides[0].sub(sides[1], fill_value=0).abs()
    assert difference.max() <= seen.most_ns - seen.least_ns < 50_000
    assert moved.by("step")["total_ns"].tolist() == run.by("step")["total_ns"].tolist()
