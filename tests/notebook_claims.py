"""What guides and notebooks claim: code that is executed after cells of theirs, by notebook and cell."""

from __future__ import annotations

from collections.abc import Mapping

CLAIMS: Mapping[str, Mapping[str, str]] = {
    "from_a_colleague": {
        "open": """\
assert not runs.absent
assert list(runs.ranks) == list(range(8))
""",
        "whole": """\
assert "the file was cut" in of_kernels["message"].iloc[0]
assert not len(broken.kernels)
assert len(broken.communication)
""",
        "what": """\
assert [found.gain_lo_ns for found in overview.advice if found.title == "Rank 5 is slow"] == [0]
""",
        "versus": """\
assert (here / peer).max() > 1.03
""",
        "ask": """\
assert slow.advice().cannot_tell
""",
        "answer": """\
assert page.stat().st_size > 1e5
assert trace.stat().st_size > 1e3
""",
    },
    "gate": {
        "alone": """\
import contextlib, io
assert status == 0
with contextlib.redirect_stdout(io.StringIO()):
    strict = main(["advise", str(saved), "--fail-on", "0.1%"])
assert strict == 3
""",
        "why": """\
assert change.delta_ns > 0.05 * change.b_ns
assert change.rows[change.rows["depth"] == 0]["delta_ns"].sum() == change.delta_ns
""",
    },
    "host_bound": {
        "sign": """\
def idle_share(run):
    step = run.breakdown().query("step == 3").groupby("part", observed=True)["duration_ns"].sum()
    return step.filter(like="idle").sum() / step.sum()


assert idle_share(starved) > 0.5 > 0.2 > idle_share(busy)
delays = [int(run.by("device")["launch_delay_ns"].iloc[0]) for run in (starved, busy)]
assert 10 * delays[0] < delays[1]
assert starved.advice()["host_bound"].state == "fires"
assert busy.advice()["host_bound"].cost_ns < starved.advice()["host_bound"].cost_ns
""",
        "if": """\
assert 0 <= no_wait.gain_ns < 0.1 * no_wait.recorded_ns
assert no_python.gain_ns > 0.3 * no_python.recorded_ns
""",
    },
    "many_processes": {
        "cell": """\
assert statuses == [0, 0, 0]
assert npuprof.last().ranks == [0, 1, 2]
assert "NPUPROF_JOB" not in os.environ
""",
        "computing": """\
assert 1.5 < computing[1] / computing[0] < 2.5
assert runs[1].info.simulated
assert {len(run.steps) for run in runs} == {5}
""",
    },
    "memory": {
        "who": """\
assert abs(peak["share"].sum() - 1) < 1e-9
assert peak["size_bytes"].sum() >= run.allocations["size_bytes"].max()
""",
        "leaks": """\
assert leaks.attrs["state"] == "fires"
leaking_line = next(number for number, text in enumerate(In[1].splitlines(), 1) if "gradient * 1" in text)
assert leaks["line"].iloc[0].endswith(f"line {leaking_line}")
assert leaks["bytes_per_step"].iloc[0] >= TOKENS * WIDTH * 4
""",
        "mended": """\
assert (mended.memory_leaks()["bytes_per_step"] <= 512).all()
assert after < before
""",
    },
    "mindspore": {
        "where": """\
assert run.by("op")["host_ns"].sum() == run.operators["duration_ns"].sum() > 0
""",
        "empty": """\
assert not len(run.efficiency()) and not len(run.kernels)
""",
    },
    "operators": {
        "who": """\
by_type, by_line = run.by("op_type"), run.by("line")
assert by_type["total_ns"].sum() == by_line["total_ns"].sum() == run.kernels["duration_ns"].sum()
gelu_line = next(number for number, line in enumerate(In[1].splitlines(), 1) if "np.tanh" in line)
assert by_line["line"].iloc[0].endswith(f"line {gelu_line}")
assert "the loop of line 2" in run.advice().headline()
""",
        "what": """\
advice = run.advice()
assert advice["fusible_repeats"].state == "fires"
assert advice["layout_and_casts"].state == "fires"
""",
        "mended": """\
assert after.step_ns < before.step_ns
assert 0.5 < 1e6 * saved["computing"] / before["fusible_repeats"].gain_hi_ns < 1.01
assert mended.advice()["fusible_repeats"].state == "clean"
""",
    },
    "published_operator": {
        "open": """\
assert arithmetic.kernels["duration_ns"].tolist() == [4380, 8340, 25881]
assert not arithmetic.info.simulated
""",
        "ask": """\
assert "cannot tell the chip" in arithmetic.efficiency().attrs["notes"][0]
""",
    },
    "published_torch_npu": {
        "first": """\
assert runs.overview().verdict.startswith("Stage 1 (ranks 2 and 3) takes ")
""",
        "why": """\
assert next(iter(runs.advice())).rule == "pipeline_imbalance"
assert not any(run.info.simulated for run in runs)
""",
    },
    "roofline": {
        "table": """\
def row(shapes):
    return table[table["input_shapes"] == shapes].iloc[0]


assert row("4096,4096;4096,4096")["bound"] == "cube"
assert row("16,4096;4096,4096")["bound"] == "memory"
assert row("128,128;128,128")["efficiency"] < 0.5 < row("4096,4096;4096,4096")["efficiency"]
assert (table["efficiency"].dropna() <= 1.1).all()
""",
        "gain": """\
assert gains["above_roof_us"].min() > -1
""",
    },
    "serving": {
        "schedule": """\
assert len(recordings) == 4
assert len(list(folder.glob("*/recording.json"))) == KEPT
""",
        "slow": """\
assert slowest % 10 == 7
assert computing.max() > 2 * computing.median()
""",
        "why": """\
shapes = of_request["input_shapes"].first()
assert shapes[slowest] == "16384,256;256,256"
assert shapes[slowest - 1] == "64,256;256,256"
""",
        "overhead": """\
assert 0 < cost["written_bytes"] < 10_000_000
""",
    },
    "shell_ranks": {
        "picture": """\
assert npuprof.load_set(job).overview().verdict.startswith("Rank 21 takes ")
assert npuprof.load_set(job).advice().fired[0].rule == "slow_rank"
""",
    },
    "slow_step": {
        "cause": """\
accounted = run.breakdown().groupby("step")["duration_ns"].sum()
assert (accounted == run.accounting.steps.set_index("step")["duration_ns"]).all()
parts = step.groupby("part", observed=True).sum()
assert parts.filter(like="idle").sum() > parts["computing"]
""",
        "if": """\
assert next(iter(run.advice())).rule == "host_bound"
""",
        "mended": """\
assert abs(predicted_ns - gained_ns) < 0.3 * gained_ns
assert mended.advice()["host_bound"].cost_ns < 0.5 * run.advice()["host_bound"].cost_ns
""",
    },
    "two_ranks": {
        "gain": """\
model = In[1].splitlines()

def line_of(text):
    (number,) = [number for number, code in enumerate(model, 1) if text in code]
    return number

waits, late = (run.advice() for run in runs)
assert waits["waiting"].place == "rank 1"
assert set(runs.blame()["root_rank"]) == {1}
lines = {found.cause: [line for _, line in found.lines] for found in late.fired if found.rule == "host_bound"}
assert lines["loader"] == [line_of("DataLoader")]
assert lines["wait"] == [line_of("loss.item()")]
assert lines["other"] == [line_of("write_log")]
assert line_of("np.sqrt(second)") in [line for _, line in late["small_kernels"].lines]
assert line_of("return 0.5 * x * (1 + np.tanh") in [line for _, line in late["fusible_repeats"].lines]
assert abs(late.step_ns / 1e6 - step_ms["before"]) < 1e-6 * step_ms["before"]
found_ms = step_ms["before"] - step_ms["after"]
assert abs(predicted_ms - found_ms) < 0.1 * found_ms
after = mended[1].advice()
assert after.parts()["computing"] > 0.5 * after.step_ns
assert after["host_bound"].state == "clean"
""",
    },
    "untouched_code": {
        "environment": """\
assert done.returncode == 0
assert done.stdout == "trained (256, 512)\\n"
assert (run.kernels["op_type"] == "Tanh").sum() == 20
""",
        "dynamic": """\
assert len(some.steps) == 3
assert some.info.simulated
""",
        "msprof": """\
assert len(raw.kernels) == 2000
""",
    },
}
