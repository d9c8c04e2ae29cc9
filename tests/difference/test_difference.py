"""A step of one run minus a step of another: rows that add up exactly, matched, with what is noise."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npuprof
from npuprof import tables
from npuprof.errors import NpuprofError
from npuprof.figures.difference import plot_waterfall
from npuprof.figures.embed import saved_bytes
from npuprof.profiles.comparison import Comparison
from npuprof.profiles.profile import Profile
from npuprof.tables.info import Info
from tests import factories
from tests.analysis.test_accounting import table
from tests.budget import examples
from tests.difference.runs import BASE, STEP_NS, noisy, profile, run

_spans = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 60)), max_size=10)
_kernel = st.tuples(
    st.integers(0, 300), st.integers(0, 60), st.sampled_from(["A", "B", "C", ""]), st.sampled_from(["1,2", "3", ""])
)


@st.composite
def _profiles(draw: st.DrawFn) -> Profile:
    kernels = draw(st.lists(_kernel, min_size=1, max_size=12))
    made = {
        "steps": table("steps", draw(st.lists(st.tuples(st.integers(0, 350), st.integers(1, 200)), max_size=5))),
        "kernels": table("kernels", [kernel[:2] for kernel in kernels]),
        "communication": table("communication", draw(_spans)),
        "tasks": table("tasks", draw(_spans)),
        "operators": table("operators", draw(_spans)),
    }
    for name, place in (("op_type", 2), ("input_shapes", 3)):
        made["kernels"][name] = pd.Categorical([kernel[place] or None for kernel in kernels])
    named = st.sampled_from(["MEMCPY_ASYNC", None])
    for name, column in (("tasks", "name"), ("communication", "op_type"), ("communication", "name")):
        made[name][column] = pd.Categorical([draw(named) for _ in range(len(made[name]))], ["MEMCPY_ASYNC"])
    made["tasks"]["task_type"] = pd.Categorical(["SDMA_SQE"] * len(made["tasks"]))
    if len(made["communication"]):
        made["communication_tasks"] = table("communication_tasks", draw(_spans))
    return profile(made)


def _check_sums(difference: Comparison) -> None:
    rows = difference.rows
    top = rows[rows["depth"] == 0]
    for column, whole in (("a_ns", difference.a_ns), ("b_ns", difference.b_ns), ("delta_ns", difference.delta_ns)):
        assert int(top[column].sum()) == whole
        for parent, below in rows[rows["parent"] >= 0].groupby("parent"):
            assert int(below[column].sum()) == int(rows.loc[parent, column])
    assert (rows["by_count_ns"] + rows["by_mean_ns"] == rows["delta_ns"]).all()


@pytest.mark.slow
@settings(max_examples=examples(30))
@given(_profiles(), _profiles())
def test_rows_add_up_at_every_depth(a: Profile, b: Profile) -> None:
    if not len(a.accounting.steps) or not len(b.accounting.steps):
        return
    difference = a - b
    _check_sums(difference)
    back = b - a
    assert back.delta_ns == -difference.delta_ns
    assert len(difference.sentence()) > 20
    json.loads(difference.to_json())


@pytest.mark.slow
@settings(max_examples=examples(20))
@given(_profiles())
def test_a_run_does_not_differ_from_itself(a: Profile) -> None:
    difference = a - a
    assert not difference.rows["delta_ns"].any()
    assert "takes as long as" in difference.sentence()
    assert difference.guards == []


@pytest.mark.slow
def test_uneven_mean_is_shared_out(tmp_path: Path) -> None:
    a = run([[("A", "1", 10)], [("A", "1", 11), ("B", "1", 7)], [("A", "1", 12)], [("A", "1", 10), ("B", "1", 7)]])
    b = run([[("A", "1", 10)], [("A", "1", 10)]])
    difference = a - b  # of three steps and of one: the first of each run is left out
    assert (len(difference.a.steps), len(difference.b.steps)) == (3, 1)
    _check_sums(difference)
    computing = difference.rows[difference.rows["part"] == "computing"].set_index("name")
    mean = (11 + 7 + 12 + 10 + 7) // 3  # 15 of 15.67, or the nanosecond that is over
    assert computing.loc["computing", "delta_ns"] in (mean - 10, mean + 1 - 10)
    assert computing.loc["B 1", ["why", "b_count"]].tolist() == ["new", 0]
    assert computing.loc["B 1", "a_count"] == pytest.approx(2 / 3)


@pytest.mark.slow
def test_change_has_one_of_four_kinds() -> None:
    base = [("MatMul", "8,8", 1000), ("Add", "8", 100), ("Cast", "8", 50), ("Gone", "8", 30), ("Same", "8", 5)]
    other = [("MatMul", "8,16", 1900), ("Add", "8", 150), ("Cast", "8", 50), ("Cast", "8", 50), ("Same", "8", 5)]
    rows = (run([other]) - run([base])).rows.set_index("name")
    assert rows["why"][["Add 8", "Cast 8", "MatMul 8,16", "MatMul 8,8", "Gone 8", "Same 8"]].tolist() == [
        "slower",
        "count",
        "shape",
        "shape",
        "gone",
        "",
    ]
    assert rows.loc["Cast 8", ["by_count_ns", "by_mean_ns"]].tolist() == [50, 0]


@pytest.mark.slow
def test_a_change_of_data_type_is_named() -> None:
    base, other = run([[("MatMul", "8,8", 1000), ("Add", "8", 100)]]), run([[("MatMul", "8,8", 480), ("Add", "8", 90)]])
    for profile_, dtype in ((base, "FLOAT;FLOAT"), (other, "DT_BF16;DT_BF16")):
        profile_.kernels["input_dtypes"] = pd.Categorical([dtype, "FLOAT"])
    rows = (other - base).rows.set_index("name")
    assert rows["why"][["MatMul 8,8", "Add 8"]].tolist() == ["dtype", "faster"]


@pytest.mark.slow
@pytest.mark.parametrize("source", ["samples", "counters of kernels"])
def test_kernels_slowed_by_their_clock_are_named(source: str) -> None:
    a = run([[("MatMul", "8,8", 12_000), ("Add", "8", 6_000), ("Cast", "8", 9_000)]])
    b = run([[("MatMul", "8,8", 10_000), ("Add", "8", 6_000), ("Cast", "8", 4_000)]])
    for side, mhz, cores in ((a, 1500, 20), (b, 1800, 24)):
        if source == "samples":
            side.tables["counters"] = _frequency(mhz)
        else:
            kernels = side.kernels
            kernels["core"], kernels["block_num"] = pd.Categorical(["AI_CORE"] * 3), pd.array([cores] * 3, "Int64")
            kernels["aic_total_time_ns"] = kernels["duration_ns"]
            kernels["aic_total_cycles"] = kernels["duration_ns"] * mhz // 1000 * cores
    difference = a - b
    rows = difference.rows.set_index("name")
    assert rows["why"][["MatMul 8,8", "Add 8", "Cast 8"]].tolist() == ["frequency", "", "slower"]
    expected = ["the cores ran at 1500 MHz against 1800 MHz"]
    if source != "samples":
        expected.append("kernels ran on 20 cube cores against 24")
    assert difference.guards == expected


def _frequency(mhz: int) -> pd.DataFrame:
    columns = {"time_ns": [BASE], "counter": ["AI Core Freq"], "value": [float(mhz)], "unit": ["MHz"]}
    return tables.build("counters", columns)


@pytest.mark.slow
def test_fused_kernel_replaces_its_parts() -> None:
    layer = [("MatMul", "8,8", 1000), ("Mul", "8", 40), ("Add", "8", 50), ("Cast", "8", 30), ("Softmax", "8", 200)]
    fused = [("MatMul", "8,8", 1000), ("FusedNorm", "8", 60), ("Softmax", "8", 200)]
    difference = run([[("In", "1", 5), *fused, *fused]]) - run([[("In", "1", 5), *layer, *layer]])
    assert difference.guards == []  # other kernels are no other shapes
    rows = difference.rows
    (row,) = rows[rows["name"] == "FusedNorm <- Mul, Add, Cast"].to_dict("records")
    assert (row["a_ns"], row["b_ns"], row["a_count"], row["b_count"]) == (120, 240, 2, 6)


@pytest.mark.slow
def test_other_paths_are_compared_where_both_sides_have_them() -> None:
    rows = (_with_stacks("train", "Block_0") - _with_stacks("train", "Fused_0")).rows
    assert set(rows[(rows["depth"] == 1) & (rows["part"] == "computing")]["name"]) == {"train"}


def _with_stacks(outer: str, inner: str) -> Profile:
    made = run([[("A", "1", 10), ("B", "1", 20)]]).tables
    base = int(made["steps"]["start_ns"].iloc[0])
    python = table("python", [(0, 5_000_000), (10, 4_000_000)])
    python["start_ns"] += base - int(python["start_ns"].iloc[0])
    python["name"] = pd.Categorical([f"job.py(1): {outer}", f"nn.Module: {inner}"])
    python["id"], python["depth"] = [0, 1], [0, 1]
    python["parent_id"] = pd.array([pd.NA, 0], "Int64")
    api = table("api", [(20, 10), (40, 10)], name="aclnnA")
    api["start_ns"] += base - int(api["start_ns"].iloc[0]) + 20
    links = npuprof.tables.build(
        "links",
        {
            "kind": ["api_task"] * 2,
            "source_table": ["api"] * 2,
            "source_row": [0, 1],
            "target_table": ["kernels"] * 2,
            "target_row": [0, 1],
        },
    )
    return profile({**made, "python": python, "api": api, "links": links})


@pytest.mark.slow
def test_without_a_step_or_device_time_there_is_nothing_to_compare() -> None:
    with pytest.raises(NpuprofError, match="nothing to compare"):
        run([[("A", "1", 10)]]) - profile({})
    step = table("steps", [(0, 100)])
    for name, other in (("operators", "host only"), ("communication", "no tasks")):
        with pytest.raises(NpuprofError, match=f"^{other} has no kernels, no tasks of a device and no step times"):
            npuprof.compare(
                profile({"steps": step, name: table(name, [(10, 50)])}), run([[("A", "1", 10)]]), names=(other, "b")
            )
    two = [profile({"steps": step, "operators": table("operators", [(0, time)])}) for time in (50, 30)]
    activities = (two[0] - two[1]).rows
    assert activities["name"].tolist() == ["host", "other_operators", "unexplained"]
    assert activities["delta_ns"].tolist() == [0, 20, -20]
    with pytest.raises(TypeError):
        run([[("A", "1", 10)]]) - 3  # type: ignore[operator]


@pytest.mark.slow
def test_evidence_is_the_rows_of_the_tables() -> None:
    difference = run([[("A", "1", 10), ("B", "1", 20)]]) - run([[("A", "1", 10)]])
    number = int(difference.rows.index[difference.rows["name"] == "B 1"][0])
    a, b = difference.evidence(number)
    assert (a["name"].tolist(), len(b)) == (["B"], 0)
    computing = int(difference.rows.index[difference.rows["part"] == "computing"][0])
    assert [len(one) for one in difference.evidence(computing)] == [2, 1]
    with pytest.raises(NpuprofError, match="no row 99"):
        difference.evidence(99)


def test_step_against_whole_run_is_noted() -> None:
    marked = run([[("MatMul", "16,16", 500)]] * 3)
    whole = profile({"kernels": marked.kernels})
    assert "only one side has steps" in (marked - whole).guards[0]
    assert (whole - whole).guards == (marked - marked).guards == []


@pytest.mark.slow
def test_what_else_differs_heads_the_result() -> None:
    a = run([[("A", "1", 10)]], simulated=True, chip="Ascend910B1", options={"level": 1})
    b = run([[("A", "2", 10)]], chip="Ascend910B4", options={"level": 0})
    difference = a - b
    assert [guard.partition(" differs")[0] for guard in difference.guards[:3]] == [
        "the kind of device",
        "the chip",
        "the level",
    ]
    assert "different shapes" in difference.guards[3]
    said = " ".join(str(difference).split())
    assert "The kind of device differs: simulated against real." in said
    assert said.index("The level differs") < said.index(" a step was ")
    assert all(guard[1:] in difference._repr_html_() for guard in difference.guards)


def _model(kernels: int = 60) -> list[tuple[str, str, int]]:
    times = np.random.default_rng(3).integers(20_000, 120_000, kernels).tolist()
    return [(f"Op{number % 20}", f"{number // 20 + 1},8", time) for number, time in enumerate(times)]


@pytest.mark.long
def test_copies_with_noise_do_not_differ() -> None:
    random = np.random.default_rng(5)
    model = _model()
    found = [bool(len((run(noisy(model, 3, random)) - run(noisy(model, 3, random))).significant)) for _ in range(100)]
    assert sum(found) <= 5


@pytest.mark.long
def test_slower_operator_of_a_twentieth_is_found() -> None:
    random = np.random.default_rng(6)
    model = [*_model(), ("Planted", "8,8", STEP_NS // 20)]
    missed = 0
    for _ in range(20):
        difference = run(noisy(model, 11, random, slower=("Planted", 1.05))) - run(noisy(model, 11, random))
        missed += "Planted 8,8" not in set(difference.significant["name"])
    assert missed <= 1


@pytest.mark.slow
def test_the_sentence_says_that_a_difference_may_be_noise() -> None:
    random = np.random.default_rng(3)

    def varied(shorter_ns: int) -> Profile:
        made = run(noisy(_model(), 10, random))
        lengths = np.append(STEP_NS - shorter_ns - random.integers(0, 200_000, 10), 1)
        steps = made.steps.assign(start_ns=BASE + np.cumsum(lengths) - lengths, duration_ns=lengths)
        earlier = (made.steps["start_ns"] - steps["start_ns"]).to_numpy()[:-1].repeat(len(_model()))
        return profile({"kernels": made.kernels.assign(start_ns=made.kernels["start_ns"] - earlier), "steps": steps})

    a, b = varied(0), varied(0)
    assert "), which may be noise: no part of it differs" in (a - b).sentence()
    assert "noise" not in (a - varied(2_000_000)).sentence()


@pytest.mark.slow
def test_the_interval_holds_the_difference_and_one_step_has_none() -> None:
    random = np.random.default_rng(7)
    difference = run(noisy(_model(), 8, random)) - run(noisy(_model(), 8, random))
    top = difference.rows[difference.rows["depth"] == 0]
    assert ((top["low_ns"] <= top["delta_ns"]) & (top["delta_ns"] <= top["high_ns"])).all()
    single = run(noisy(_model(), 1, random)) - run(noisy(_model(), 1, random))
    assert single.basis == "one step each: noise unknown"
    told = "intervals of 95 % for all rows together; variation between runs is unknown"
    assert difference.basis == f"7 steps against 7 steps; {told}"  # not the first one
    assert single.rows["low_ns"].isna().all()
    assert single.rows["significant"].isna().all()


@pytest.mark.slow
def test_it_is_shown_in_a_page_and_small_in_a_notebook(tmp_path: Path) -> None:
    hostile = "<img src=x onerror='pwned()'>"
    a = run([[(f"{hostile}{number}", "8", 100 + number) for number in range(300)]], name=hostile, simulated=True)
    b = run([[(f"{hostile}{number}", "8", 100) for number in range(300)]], name="b", simulated=True)
    difference = a - b
    figures = difference.plot_waterfall(), difference.plot_flamegraph()
    assert sum(map(saved_bytes, figures)) + len(difference._repr_html_()) < 500_000
    page = difference.to_html(tmp_path / "difference.html").read_text("utf-8")
    assert "<img src=x" not in page
    assert "simulated NPU" in page
    bar = figures[0].data[0]
    assert len(bar.x) == 13
    assert bar.base[-2] + bar.x[-2] == pytest.approx(bar.x[-1])  # the way ends at the step of a


@pytest.mark.slow
def test_whiskers_miss_labels() -> None:
    random = np.random.default_rng(9)
    difference = run(noisy(_model(), 6, random)) - run(noisy(_model(), 6, random))
    bars, labels = difference.plot_waterfall().data
    ends = [max(base, base + x) for base, x in zip(bars.base, bars.x, strict=True)]
    whiskers = [base + x + more for base, x, more in zip(bars.base, bars.x, bars.error_x.array, strict=True)]
    for x, end, whisker in zip(labels.x, ends, whiskers, strict=True):
        assert x >= max(end, whisker) - 1e-9
    assert any(bars.error_x.array)
    frames = difference.plot_flamegraph().data[0]
    assert (frames.ids[0], frames.parents[0]) == ("step", "")
    top = [value for value, parent in zip(frames.values, frames.parents, strict=True) if parent == "step"]
    assert frames.values[0] == sum(top) == difference.a_ns + difference.b_ns


def test_truncated_waterfall_axis_says_so() -> None:
    figure = (run([[("Add", "8", 1_000_000)]]) - run([[("Add", "8", 990_000)]])).plot_waterfall()
    low = figure.layout.xaxis.range[0]
    notes = [note.text for note in figure.layout.annotations]
    assert low > 0
    assert notes.count("<b>//</b>") == 2  # the two steps, whose bars begin at 0
    assert any(note.startswith("// the axis begins at ") for note in notes if note)
    bars = pd.DataFrame({"title": ["Add"], "delta_ns": [900], "low_ns": [800], "high_ns": [999], "why": [""]})
    whole = plot_waterfall(bars, (100, 1000), ("a", "b"), Info())
    assert whole.layout.xaxis.range[0] == 0
    assert not [note.text for note in whole.layout.annotations if "//" in (note.text or "")]


def _sample(samples: Path, name: str) -> Profile:
    return npuprof.load_set(samples / "torch_npu" / name)[0]


def _odd_runs() -> dict[str, Profile]:
    devices = table("kernels", [(0, 50), (60, 10), (5, 20)])
    devices["device_id"] = [0, 0, 3]
    step = table("steps", [(0, 100)])
    return {
        "no steps": profile({"kernels": table("kernels", [(0, 50), (60, 10)])}),
        "one step": run([[("A", "1", 10)]]),
        "many steps": run([[("A", "1", 10 + number), ("B", "2", 3)] for number in range(40)]),
        "copies only": profile({"steps": step, "tasks": table("tasks", [(10, 50)])}),
        "two devices": profile({"steps": step, "kernels": devices}),
        "long names": run([[("N" * 20_000, "9" * 20_000, 10)]]),
        "every table": profile(factories.profile(60)),
    }


@pytest.mark.slow
def test_any_run_that_has_a_step_is_compared_with_any_other() -> None:
    runs = _odd_runs()
    names = list(runs)
    for (place, name), further in itertools.product(enumerate(names), (0, 1, 3)):
        other = names[(place + further) % len(names)]
        difference = runs[name] - runs[other]
        _check_sums(difference)
        assert not difference.rows[["a_ns", "b_ns", "delta_ns", "a_count", "b_count"]].isna().any(axis=None)
        for text in (difference.sentence(), str(difference), difference._repr_html_(), difference.to_json()):
            assert not re.search(r"\b(nan|NaN|NA|None|inf)\b", text), (name, other, text)
        if name == other:
            assert difference.guards == []
            assert not difference.rows["delta_ns"].any()
    for name in ("no steps", "copies only", "every table"):  # the figures, of those that differ most
        difference = runs[name] - runs["two devices"]
        assert difference.plot_waterfall().data
        assert difference.plot_flamegraph().data


@pytest.mark.slow
def test_of_two_levels_communication_is_compared_as_a_whole(samples: Path) -> None:
    difference = _sample(samples, "text/level1") - _sample(samples, "text/level0")
    _check_sums(difference)
    parts = difference.rows[difference.rows["depth"] == 0].set_index("part")["delta_ns"] / 1e6
    expected = {"communication": 20.448, "computing": 0.046, "copy": -0.156, "idle": -1.249}
    assert parts.to_dict() == pytest.approx(expected, abs=5e-4)
    assert difference.delta_ns / 1e6 == pytest.approx(19.088, abs=5e-4)
    assert any("level" in guard for guard in difference.guards)


@pytest.mark.slow
def test_of_text_and_database_the_waiting_differs(samples: Path) -> None:
    difference = npuprof.compare(
        samples / "torch_npu/text/level1/rank0_ascend_pt",
        samples / "torch_npu/db/level1/rank0_ascend_pt",
        names=("text", "database"),
    )
    _check_sums(difference)
    parts = difference.rows[difference.rows["depth"] == 0].set_index("part")["delta_ns"] / 1e6
    expected = {"waiting": 4.022, "moving": -0.131, "computing": -0.030, "copy": 0.012, "idle": 0.224}
    assert parts.to_dict() == pytest.approx(expected, abs=6e-4)
    assert difference.sentence() == (
        "A step of text is 4.10 ms slower than one of database: "
        "4.02 ms of it is waiting for other ranks, not your kernels."
    )
    computing = difference.rows[(difference.rows["part"] == "computing") & (difference.rows["depth"] == 1)]
    assert (computing["a_count"] == computing["b_count"]).all()  # every module and line is matched
    (copy,) = difference.rows[(difference.rows["part"] == "copy") & (difference.rows["depth"] == 1)].to_dict("records")
    assert copy["place"] == "main.py:350"


@pytest.mark.slow
def test_one_step_of_several_ranks_tells_nothing_of_noise(samples: Path) -> None:
    a, b = (npuprof.load_set(samples / "torch_npu" / name) for name in ("text/level1", "db/level1"))
    difference = a - b
    assert difference.basis == "1 step on each of 2 devices against 1 step on each of 2 devices: noise unknown"
    _check_sums(difference)
    assert len((a[0] - b).b.steps) == len((b - a[0]).a.steps) == 2


def test_side_needs_a_run() -> None:
    runs = [run([[("MatMul", "2,2", 100 + number)] for number in range(4)]) for _ in range(3)]
    with pytest.raises(NpuprofError, match="at least one run"):
        npuprof.compare([], runs)
    assert npuprof.compare(runs, runs[:2]).basis.startswith("3 steps in each of 3 runs against 3 steps in each of 2 ")
