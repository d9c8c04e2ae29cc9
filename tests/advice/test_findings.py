"""What rules conclude, of real runs and of runs made to fire or to be clean."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

import npuprof
from npuprof.advice import findings
from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding, Rule
from npuprof.advice.findings import Advice, advise
from npuprof.advice.rules import RULES
from npuprof.analysis.accounting import account
from npuprof.analysis.rank_peers import late_peers
from npuprof.errors import NpuprofError
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.info import Info
from npuprof.tables.notes import Notes
from tests import factories
from tests.analysis.test_accounting import table

pytestmark = pytest.mark.slow


def advice(**tables: pd.DataFrame) -> Advice:
    run = factories.all_tables(**tables)
    return advise(run, Info(rank=0), account(run))


def sample(samples: Path, name: str) -> Profile:
    run = npuprof.load(samples / "torch_npu" / name)
    assert isinstance(run, Profile)
    return run


@pytest.mark.parametrize(
    ("name", "late", "waiting_ms", "possible_ms", "idle_ms", "late_ms"),
    [
        ("text/level1/rank0_ascend_pt", "rank 5", 98.03, 96.02, 44.30, (78.77, 0.88, 21.99, 5.62)),
        ("text/level1/rank1_ascend_pt", "rank 5", 92.41, 95.99, 47.37, (73.16, 0.88, 21.99, 0.02)),
        ("db/level1/rank0_ascend_pt", "rank 6", 94.01, 84.29, 44.07, (88.42, 0.76, 8.40, 13.29)),
    ],
)
def test_of_data_parallel_training_the_late_rank_and_the_host(
    samples: Path,
    name: str,
    late: str,
    waiting_ms: float,
    possible_ms: float,
    idle_ms: float,
    late_ms: tuple[float, ...],
) -> None:
    run = sample(samples, name)
    peers = late_peers(run.communication_tasks)
    peers = peers[peers["latest_ns"] - peers["next_ns"] >= 100_000]
    assert {f"rank {peer}" for peer in peers["peer"]} == {late}
    assert [*peers["latest_ns"] / 1e6, peers["next_ns"].max() / 1e6] == pytest.approx(late_ms, abs=0.02)
    advice = run.advice()
    assert {one.rule for one in advice} == {"waiting", "host_bound", "layout_and_casts"}
    waiting, layout = advice["waiting"], advice["layout_and_casts"]
    hosts = [one for one in advice if one.rule == "host_bound"]
    assert waiting.title == f"Collectives wait for {late}, which is not in this profile"
    assert waiting.cost_ns / 1e6 == pytest.approx(waiting_ms, abs=0.01)
    assert waiting.gain_lo_ns == 0
    assert waiting.gain_hi_ns / 1e6 == pytest.approx(min(possible_ms, waiting_ms), rel=0.01)
    assert max(one.gain_hi_ns for one in hosts) / 1e6 <= idle_ms  # without any wait the device takes as long
    assert {place.rpartition("/")[2] for one in hosts for place, _ in one.lines} == {"main.py"}
    assert {350, 354, 485} <= {line for one in hosts for _, line in one.lines}
    assert {"wait", "launches", "compile"} <= {one.cause for one in hosts}
    assert layout.gain_hi_ns < 0.02 * advice.step_ns
    assert advice["exposed_communication"].state == "clean"  # waiting is nothing that larger buckets would hide
    assert advice["first_step"].state == "cannot tell"


def test_where_collectives_have_no_tasks_waiting_is_unknown(samples: Path) -> None:
    advice = sample(samples, "text/level0/rank0_ascend_pt").advice()
    assert advice["waiting"].state == advice["exposed_communication"].state == "cannot tell"
    assert advice["waiting"].collect == "collect with --level 1, or load all ranks"
    assert "not recorded" in advice["host_bound"].detail


def test_a_rank_of_kernels_alone_is_not_called_host_bound(samples: Path) -> None:
    advice = sample(samples, "llm_4ranks/rank_0_ascend_pt").advice()
    assert advice["host_bound"].state == advice["waiting"].state == "cannot tell"
    assert [one.rule for one in advice] == ["layout_and_casts"]


@pytest.mark.slow
def test_a_device_that_waits_for_the_host_is_host_bound() -> None:
    kernels = table("kernels", [(0, 20), (50, 20), (90, 10)])
    calls = table("operators", [(20, 30)])
    found = advice(steps=table("steps", [(0, 100)]), kernels=kernels, operators=calls)
    slow = [each for each in found if each.rule == "host_bound"]
    assert [(each.cause, each.cost_ns, each.gain_lo_ns, each.gain_hi_ns) for each in slow] == [
        ("launches", 30, 0, 30),
        ("other", 20, 0, 20),
    ]
    assert slow[0].rows["idle_ns"].tolist() == [30]
    busy = advice(steps=table("steps", [(0, 100)]), kernels=table("kernels", [(0, 95)]), operators=calls)
    assert busy["host_bound"].state == "clean"


def test_idle_time_behind_a_wait_has_its_line() -> None:
    stacks = pd.Series(["train.py(7): log", "train.py(3): load"], dtype="category")
    names = pd.Series(["item", "DataLoader"], dtype="category")
    calls = table("operators", [(20, 10), (30, 60)], thread_id=1).assign(name=names, stack=stacks)
    waits = table("api", [(20, 5), (26, 2)], name="aclrtSynchronizeStream", thread_id=1)
    found = advice(
        steps=table("steps", [(0, 100)]), kernels=table("kernels", [(0, 25), (90, 10)]), operators=calls, api=waits
    )
    places = {each.cause: each.place for each in found.findings if each.rule == "host_bound"}
    assert places == {"loader": "train.py:3", "wait": "train.py:7"}
    assert "read it every n steps" in found[2].action


def test_the_latest_member_of_each_collective_is_named() -> None:
    waits = [(0, 0, 1, 30), (0, 1, 2, 70), (0, 1, 2, 999), (1, 0, 1, 8), (1, 1, 2, 5)]  # op, plane, member, time
    tasks = npuprof.tables.build(
        "communication_tasks",
        {
            "start_ns": np.arange(len(waits)),
            "duration_ns": np.array([wait[3] for wait in waits]),
            "device_id": np.zeros(len(waits), np.int64),
            "op_id": pd.array([wait[0] for wait in waits], "Int64"),
            "plane_id": pd.array([wait[1] for wait in waits], "Int64"),
            "dst_rank": pd.array([wait[2] for wait in waits], "Int64"),
            "task_type": ["Notify_Wait"] * len(waits),
        },
    )
    assert late_peers(tasks).to_numpy().tolist() == [[0, 2, 70 + 999, 30], [1, 1, 8, 5]]
    assert not len(late_peers(tasks[:0]))


def ring(*waits: tuple[int, int], member: int = 1, steps: int = 1, op_type: str = "hcom_allReduce_") -> Advice:
    """Findings of steps of 100 ms, each with a collective of one plane that waits for members, one after the other."""
    kinds: dict[str, list[int]] = {name: [] for name in ("start_ns", "duration_ns", "op_id", "dst_rank")}
    for op in range(steps):
        start = factories.START_NS + 100_000_000 * op + 1_000_000
        for peer, time in waits:
            for name, value in zip(kinds, (start, time, op, peer), strict=True):
                kinds[name].append(value)
            start += time
    count = len(kinds["op_id"])
    tasks = npuprof.tables.build(
        "communication_tasks",
        {
            "start_ns": np.array(kinds["start_ns"]),
            "duration_ns": np.array(kinds["duration_ns"]),
            "device_id": np.zeros(count, np.int64),
            **{name: pd.array(kinds[name], "Int64") for name in ("op_id", "dst_rank")},
            "src_rank": pd.array([member] * count, "Int64"),
            "plane_id": pd.array([0] * count, "Int64"),
            "task_type": ["Notify_Wait"] * count,
        },
    )
    spans = [
        (100_000_000 * op + 1_000_000, 100_000_000 * op + 1_000_000 + sum(time for _, time in waits) + 10)
        for op in range(steps)
    ]
    return advice(
        steps=table("steps", [(100_000_000 * op, 100_000_000 * (op + 1)) for op in range(steps)]),
        kernels=table("kernels", [(0, 10)]),
        communication=table("communication", spans, op_type=op_type),
        communication_tasks=tasks,
    )


def test_a_neighbour_in_a_pipeline_is_not_called_late() -> None:
    assert ring((1, 43_100_000), member=0)["waiting"].place
    for sends in ("hcom_batchSendRecv_", "hcom_receive_"):
        assert ring((1, 43_100_000), member=0, op_type=sends)["waiting"].title == "Collectives wait for other ranks"


def test_longest_awaited_member_of_a_ring_is_named() -> None:
    found = ring((0, 6_300_000), (2, 43_100_000), (0, 1_000))["waiting"]
    assert found.title == "Collectives wait for member 2 of the group, which is not in this profile"
    assert found.gain_hi_ns == 43_100_000 - 6_301_000


def test_ring_rank_beyond_a_neighbour_may_be_late() -> None:
    found = ring((2, 6_300_000), (2, 43_100_000), member=3)["waiting"]
    assert found.title == "Collectives wait for a rank beyond neighbour 2, which is not in this profile"


@pytest.mark.parametrize("waits", [((0, 20_000_000), (2, 20_000_010)), ((0, 3_000_000), (2, 3_050_000))])
def test_barely_later_member_is_not_named(waits: tuple[tuple[int, int], ...]) -> None:
    assert ring(*waits)["waiting"].title in ("Collectives wait for other ranks", "")


@pytest.mark.parametrize(("moving", "state"), [(4, "clean"), (20, "fires")])
def test_only_moving_time_is_exposed_communication(moving: int, state: str) -> None:
    found = advice(
        steps=table("steps", [(0, 100)]),
        kernels=table("kernels", [(0, 40)]),
        communication=table("communication", [(40, 50)]),
        communication_tasks=table("communication_tasks", [(60, moving)]),
    )
    assert (found["exposed_communication"].state, found["exposed_communication"].cost_ns) == (state, moving)
    assert found["waiting"].cost_ns == 50 - moving


@pytest.mark.slow
@pytest.mark.parametrize(("task_type", "state"), [("AI_CPU", "fires"), ("AICPU", "fires"), ("AI_CORE", "clean")])
def test_kernels_of_the_ai_cpu_are_found(task_type: str, state: str) -> None:
    kernels = table("kernels", [(0, 40)], task_type=task_type)
    found = advice(steps=table("steps", [(0, 100)]), kernels=kernels)["ai_cpu"]
    assert (found.state, len(found.rows)) == (state, int(state == "fires"))
    assert ("MatMul" in found.detail) == (state == "fires")


@pytest.mark.parametrize(("op_type", "state"), [("TransData", "fires"), ("Cast", "fires"), ("MatMulV3", "clean")])
def test_kernels_that_change_dtype_or_layout(op_type: str, state: str) -> None:
    kernels = table("kernels", [(0, 40)], op_type=op_type)
    assert advice(steps=table("steps", [(0, 100)]), kernels=kernels)["layout_and_casts"].state == state


@pytest.mark.parametrize(("copied", "state"), [(10, "fires"), (0, "clean")])
def test_copies_outside_kernels(copied: int, state: str) -> None:
    found = advice(
        steps=table("steps", [(0, 1000)]),
        kernels=table("kernels", [(0, 40)]),
        tasks=table("tasks", [(30, 10 + 2 * copied)]),
    )
    assert (found["copies"].state, found["copies"].cost_ns) == (state, 2 * copied)


@pytest.mark.parametrize(
    ("direction", "size", "state"),
    [("device to host", 4, "clean"), ("device to host", 4096, "fires"), ("host to device", 4, "fires")],
)
def test_values_read_by_the_host_are_waits(direction: str, size: int, state: str) -> None:
    tasks = table("tasks", [(100, 30), (200, 30)]).assign(copy_direction=direction, copied_bytes=size)
    found = advice(steps=table("steps", [(0, 1000)]), kernels=table("kernels", [(0, 40)]), tasks=tasks)
    assert found["copies"].state == state


def test_copies_beside_values_are_bounded() -> None:
    tasks = table("tasks", [(100, 30), (200, 30)]).assign(copy_direction="device to host", copied_bytes=[4, 4096])
    found = advice(steps=table("steps", [(0, 1000)]), kernels=table("kernels", [(0, 40)]), tasks=tasks)["copies"]
    assert (found.cost_ns, found.confidence, len(found.rows)) == (30, "bounded", 1)


def test_short_kernels_matter_where_the_host_is_late() -> None:
    steps, calls = table("steps", [(0, 1000)]), table("operators", [(0, 1000)])
    late = advice(steps=steps, kernels=table("kernels", [(at, 5) for at in range(0, 1000, 50)]), operators=calls)
    assert (late["small_kernels"].state, len(late["small_kernels"].rows)) == ("fires", 20)
    busy = advice(steps=steps, kernels=table("kernels", [(at, 50) for at in range(0, 1000, 50)]), operators=calls)
    assert busy["small_kernels"].state == "clean"


@pytest.mark.slow
def test_the_first_step_is_in_no_figure_if_there_are_others() -> None:
    steps = table("steps", [(0, 900), (900, 100), (1000, 100), (1100, 100)])
    kernels = table("kernels", [(0, 900), (900, 90), (1000, 90), (1100, 90)])
    found = advice(steps=steps, kernels=kernels)
    assert found.step_ns == 100
    assert (found["first_step"].state, found["first_step"].cost_ns) == ("fires", 800)
    assert found.headline() == "100 ns a step (mean of 2 steps)"
    assert found.parts()["computing"] == 90
    even = advice(steps=table("steps", [(0, 100), (100, 100)]), kernels=table("kernels", [(0, 90)]))
    assert even["first_step"].state == "clean"


def test_findings_are_data_too() -> None:
    found = advice(
        steps=table("steps", [(0, 100)]), kernels=table("kernels", [(0, 20)]), operators=table("operators", [(20, 80)])
    )
    plain = json.loads(found.to_json())
    assert plain["parts_ns"] == {
        "computing": 20,
        "waiting": 0,
        "moving": 0,
        "communication": 0,
        "copy": 0,
        "idle": 80,
        "between_steps": 0,
        "not_recorded": 0,
    }
    first = plain["findings"][0]
    assert (first["rule"], first["gain_hi_ns"], first["evidence"]) == (
        "host_bound",
        80,
        {"table": "operators", "rows": [0]},
    )
    assert [one["rule"] for one in plain["findings"]] == found.to_frame()["rule"].tolist()
    assert len(plain["findings"]) == len(RULES)
    with pytest.raises(NpuprofError, match="host_bound"):
        found["nonsense"]


def test_empty_run_has_no_findings() -> None:
    found = advice(marks=table("marks", [(0, 100)], message="a", thread_id=1))
    assert (len(found), found.step_ns, found.findings) == (0, 0, [])
    assert "nothing can be concluded" in str(found)


def test_failing_rule_of_a_package_spares_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(facts: Facts) -> Finding:
        raise ValueError(f"no {len(facts.basis.rows)}")

    monkeypatch.setattr(findings, "rules", lambda: [Rule("mine", "nothing", broken), *RULES])
    found = advice(steps=table("steps", [(0, 100)]), kernels=table("kernels", [(0, 90)]))
    assert (found["mine"].state, found["mine"].detail) == ("cannot tell", "ValueError: no 1")
    assert len(found.findings) == len(RULES) + 1


def test_findings_follow_expected_gains() -> None:
    facts = advice(steps=table("steps", [(0, 100)])).facts
    measured = Finding("measured", "fires", gain_lo_ns=2, gain_hi_ns=2, confidence="measured")
    bounded, between = Finding("bounded", "fires", gain_hi_ns=57), Finding("between", "fires", "", 0, 10, 20)
    certain = Finding("certain", "fires", gain_lo_ns=15, gain_hi_ns=15, confidence="measured")
    ordered = [one.rule for one in Advice(facts, [measured, bounded, between, certain])]
    assert ordered == ["certain", "between", "bounded", "measured"]


def test_the_limits_of_a_gain_are_reported() -> None:
    for low, high, text in (
        (0, 2_000_000, "up to −2.00 ms"),
        (5, 5, "−5 ns"),
        (1_000_000, 2_000_000, "−1.00 to −2.00 ms"),
        (5_000, 2_000_000, "−5.00 µs to −2.00 ms"),
        (0, 0, ""),
    ):
        assert Finding("x", "fires", gain_lo_ns=low, gain_hi_ns=high).gain == text


def _rule(*words: Any, **fields: Any) -> Rule:
    return Rule("other", "", lambda _: Finding("other", *words, **fields))


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Install a package with rules; one that is None cannot be loaded."""

    def install_(*rules: object) -> None:
        def rule(name: str) -> object:
            if rules[int(name.removeprefix("rule"))] is None:
                raise ImportError("no such package")
            return rules[int(name.removeprefix("rule"))]

        module = ModuleType("shop_of_rules")
        module.__getattr__ = rule  # type: ignore[method-assign]
        monkeypatch.setitem(sys.modules, module.__name__, module)
        about = tmp_path / "shop_of_rules-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: shop-of-rules\nVersion: 1.0\n")
        names = ["other", *(f"other{number}" for number in range(1, len(rules)))]
        entries = [f"{name} = {module.__name__}:rule{number}" for number, name in enumerate(names)]
        (about / "entry_points.txt").write_text("\n".join(["[npuprof.rules]", *entries, ""]))
        monkeypatch.syspath_prepend(str(tmp_path))

    return install_


_HOSTILE = "</div><script>alert(1)</script>\u202e\x1b[31m\ud800"


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        (None, "ImportError: no such package"),
        ("no rule", "is no npuprof.advice.finding.Rule"),
        (Rule("other", "", lambda _: None), "returns no Finding"),  # type: ignore[arg-type,return-value]
        (_rule("maybe"), "its state is 'maybe'"),
        (_rule("fires", None), "title of its finding is no text"),
        (_rule("fires", "a title", 1.5), "TypeError"),
        (_rule("fires", rows=None), "a table of rows"),
        (_rule("fires", rows=pd.DataFrame({"a": [1]}, index=["x"])), "numbers of rows"),
        (_rule("fires", confidence="certain"), "its confidence 'certain'"),
    ],
)
def test_bad_rule_of_a_package_costs_only_itself(rule: object, told: str, install: Callable[..., None]) -> None:
    install(rule)
    run = Profile(Decoded(factories.all_tables(**factories.profile(30)), factories.info()))
    assert told in run.advice()["other"].detail
    assert "rule failed" in " ".join(str(run.advice()).split())  # a line may end anywhere
    assert "rule failed" in run._repr_html_()
    assert len(run.advice().to_frame()) == len(json.loads(run.advice().to_json())["findings"])
    assert {finding.rule for finding in run.advice().findings} == {*(rule.name for rule in RULES), "other"}


def test_notebook_shows_every_finding_of_packages(install: Callable[..., None]) -> None:
    install(*(_rule("fires", f"title {number}", 1, gain_hi_ns=10**9) for number in range(9)))
    run = Profile(Decoded(factories.all_tables(**factories.profile(30)), factories.info(simulated=True)))
    page = run.advice()._repr_html_() or ""
    assert [f"title {number}" in page for number in range(9)] == [True] * 9
    assert "simulated NPU" in page
    assert "simulated NPU" in str(run.advice()).splitlines()[0]


def test_hostile_texts_of_a_rule_are_shown_as_text(install: Callable[..., None]) -> None:
    texts = dict.fromkeys(("title", "detail", "action", "place", "collect"), _HOSTILE * 50)
    install(_rule("fires", cost_ns=np.int64(5), gain_lo_ns=0, gain_hi_ns=10**400, **texts))
    run = Profile(Decoded(factories.all_tables(**factories.profile(30)), factories.info()))
    assert run.advice()["other"].cost_ns == 5
    page = run.advice()._repr_html_() or ""
    assert "&lt;script&gt;" in page
    for text in (page, run._repr_html_(), str(run), str(run.advice())):
        text.encode()
        assert not re.search("[\u202e\x1b]", text)
    assert "<script>alert" not in run._repr_html_() + page
    json.loads(run.advice().to_json())


def _transfers(rates: list[float], count: int = 6, size: int = 4 << 20) -> Advice:
    """Transfers from rank 0 to others at rates in GB/s, `count` to each, as one collective that nothing hides."""
    peers = np.repeat(np.arange(1, len(rates) + 1), count)
    lengths = np.round(size / np.repeat(np.array(rates), count)).astype(np.int64)
    starts = np.cumsum(lengths) - lengths
    whole = int(lengths.sum())
    spans = table("communication_tasks", list(zip(starts.tolist(), lengths.tolist(), strict=True)), transport="HCCS")
    tasks = spans.assign(
        task_type=pd.Categorical(["Memcpy"] * len(peers)),
        src_rank=pd.array([0] * len(peers), "Int64"),
        dst_rank=pd.array(peers, "Int64"),
        size_bytes=pd.array([size] * len(peers), "Int64"),
    )
    return advice(
        steps=table("steps", [(0, whole + 100)]),
        kernels=table("kernels", [(whole, 100)]),
        communication=table("communication", [(0, whole)]),
        communication_tasks=tasks,
    )


def test_slow_link_is_priced_against_others() -> None:
    found = _transfers([18, 18, 9, 18])["slow_link"]
    assert (found.state, found.place, found.table) == ("fires", "rank 0 to 3", "communication_tasks")
    assert found.cost_ns == pytest.approx(6 * (4 << 20) / 18, rel=1e-4)  # half of the time at half of the rate
    assert (found.gain_lo_ns, found.gain_hi_ns) == (0, found.cost_ns)
    assert "at 9.0 GB/s, 50% of the 18.0 GB/s" in found.detail
    assert len(found.rows) == 6


@pytest.mark.parametrize(
    ("rates", "count"),
    [([18, 18, 13, 18], 6), ([18, 18, 9, 18], 4), ([18, 9], 6), ([], 0)],
    ids=["a little slower", "seen too seldom", "no usual rate among two", "no transfers"],
)
def test_equal_links_are_clean(rates: list[float], count: int) -> None:
    if rates:
        assert _transfers(rates, count)["slow_link"].state == "clean"
    else:
        assert advice(kernels=table("kernels", [(0, 9)]))["slow_link"].state == "clean"


def test_without_the_tasks_of_collectives_the_links_are_not_known() -> None:
    found = advice(kernels=table("kernels", [(0, 9)]), communication=table("communication", [(9, 50)]))["slow_link"]
    assert (found.state, found.collect) == ("cannot tell", "collect with --level 1, or load all ranks")


def test_the_links_of_data_parallel_training_are_alike(samples: Path) -> None:
    found = sample(samples, "text/level1/rank0_ascend_pt").advice()["slow_link"]
    assert found.state == "clean"


def test_collecting_advice_names_missing_options() -> None:
    kernels = table("kernels", [(0, 9)])
    ranks = {"kernels": kernels, "communication": table("communication", [(9, 50)])}
    for level, waiting, host in (
        (0, "collect with --level 1, or load all ranks", "collect with --level 1 --activities cpu,npu"),
        (2, "load all ranks", "collect with --activities cpu,npu"),
    ):
        info = replace(factories.info(), options={"level": level})
        found = Profile(Decoded(factories.all_tables(**ranks), info, Notes())).advice()
        assert (found["waiting"].collect, found["host_bound"].collect) == (waiting, host)
        assert "checks need more data" in found.needing_data()


def test_lost_collected_data_is_reported() -> None:
    options = {"level": 1, "aic_metrics": "PipeUtilization", "activities": ["cpu", "npu"]}
    info, run = replace(factories.info(), options=options), factories.all_tables(kernels=table("kernels", [(0, 9)]))
    found = Profile(Decoded(run, info, Notes())).advice()
    assert found["unused_cores"].collect == "load the whole result, this one has no counters"
    assert found["host_bound"].collect == "load the whole result, this one has no calls of the host"


def test_steps_of_several_devices_are_counted_once() -> None:
    steps = table("steps", [(0, 100), (100, 100), (200, 100)])
    kernels = pd.concat([table("kernels", [(0, 90), (100, 90), (200, 90)], device_id=device) for device in (0, 9)])
    assert advice(steps=steps, kernels=kernels).headline() == "100 ns a step (1 step of 2 devices)"


def test_of_kernels_in_captured_graphs_the_hosts_part_is_unknown() -> None:
    calls = table("api", [(0, 5), (40, 5)], name="aclmdlRIExecuteAsync", thread_id=1)
    found = advice(
        steps=table("steps", [(0, 100)]), kernels=table("kernels", [(5, 10), (15, 10), (90, 10)]), api=calls
    )["host_bound"]
    assert (found.state, found.cost_ns, found.gain_lo_ns, found.gain_hi_ns) == ("fires", 65, 0, 65)
    assert "Captured graphs launched 3 of 3 kernels" in found.detail
    assert "synchronis" not in found.detail


def test_gains_never_exceed_costs() -> None:
    kernels = table("kernels", [(0, 9), (50, 9), (60, 9)])
    operators = table("operators", [(0, 5)], thread_id=1)
    found = advice(steps=table("steps", [(0, 100)]), kernels=kernels, operators=operators)
    assert all(one.gain_lo_ns <= one.gain_hi_ns <= one.cost_ns for one in found)
    assert found["small_kernels"].state == "clean"  # nothing was dispatched while the device was idle
    assert not found["layout_and_casts"].is_risk
