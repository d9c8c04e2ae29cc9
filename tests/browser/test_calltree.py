"""The flame graph's state in a page: pictures, search and sums are those of the call tree, whole and of any part."""

from __future__ import annotations

from base64 import b64encode
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuprof import tables as schema
from npuprof.arrays import Int64
from npuprof.browser.saved_run import save_run, save_tree
from npuprof.browser.script import commented_saved_script
from npuprof.browser.setup import families, simulated_mark
from npuprof.flame.scope import Scope, scoped
from npuprof.flame.tree import call_tree, merged_calls
from npuprof.timeline.state import Timeline
from tests import factories
from tests.budget import examples
from tests.flame.trees import NAMES, Row, callers, tree

pytestmark = pytest.mark.browser

_NAMES = "{ openRun, openTree, related, makeTree, ownSums, looksNamed, frameModel, WHOLE }"
_START = f"""script => {{
    globalThis.bytes = (text) => Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
    Object.assign(globalThis, new Function(`${{script}}; return {_NAMES};`)());
    globalThis.named = (name) => {{
        const node = tree.picture().nodes.find((one) => one.name === name);
        tree.root = {{ paths: node.paths, isFolded: node.look < 0 }};
    }};
    globalThis.shown = () => {{
        const {{ nodes, above, level, left, width, folded, lit, title, nothing, names, upwards }} = tree.picture();
        const arrays = Object.entries({{ above, level, left, width, folded, lit }});
        const columns = Object.fromEntries(arrays.map(([name, all]) => [name, [...all]]));
        const of = (key) => nodes.map((one) => one[key]);
        return {{ ...columns, title, nothing, names, upwards, total: of('total'), own: of('own'), looks: of('look') }};
    }};
}}"""
_MANY = tuple(f"kernel_{at}" for at in range(20_000))


@pytest.fixture(scope="module")
def page(browser: Any) -> Iterator[Any]:
    """A page that knows the functions."""
    page = browser.new_page()
    page.evaluate(_START, commented_saved_script(with_grid=False).split("{\n    const place =")[0])
    yield page
    page.close()


def _open(page: Any, tables: Mapping[str, pd.DataFrame], *, by_module: bool = False, mark: str = "") -> None:
    """Make the call tree of a run the page's."""
    data = save_tree(tables, merged_calls(tables, by_module=by_module))
    setup = {"families": families("CANN"), "simulated": mark}
    page.evaluate(
        "async ([data, setup]) => { globalThis.tree = makeTree(await openTree(bytes(data), setup)); }",
        [b64encode(data).decode(), setup],
    )


def _shown(page: Any, act: str = "") -> dict[str, Any]:
    found: dict[str, Any] = page.evaluate(f"() => {{ {act}; return shown(); }}")
    return found


def _check(shown: Mapping[str, Any]) -> None:
    """Frames lie within their caller side by side, and their amounts are those of their callees and their own."""
    above, level, total = (np.array(shown[name]) for name in ("above", "level", "total"))
    left, width = np.array(shown["left"]), np.array(shown["width"])
    assert (left[1:] >= left[above[1:]] - 1e-9).all()
    assert (left[1:] + width[1:] <= (left + width)[above[1:]] + 1e-9).all()
    for one in range(int(level.max()) + 1):
        row = np.flatnonzero(level == one)
        row = row[np.argsort(left[row], kind="stable")]
        assert (left[row[1:]] >= (left + width)[row[:-1]] - 1e-9).all()
    below = np.zeros(len(total))
    np.add.at(below, above[1:], total[1:])
    assert (below <= total + 1e-6).all()
    assert len(total) <= 2_100


def test_zoom_unfolds_slices(page: Any) -> None:
    _open(page, factories.profile(20_000, kernel_names=_MANY))
    whole = _shown(page, "tree.weigh('device')")
    _check(whole)
    assert any(name.endswith(" more)") for name in whole["names"])
    assert _shown(page, "named('aten::softmax')")["names"][0] == "aten::softmax"
    assert page.evaluate("() => tree.path()") == ["aten::softmax"]
    launches = _shown(page, "named('launch')")
    _check(launches)
    assert len({name for name in launches["names"] if name.startswith("kernel_")} - set(whole["names"])) == 500
    more = next(at for at, folded in enumerate(launches["folded"]) if folded)
    count = int(launches["names"][more].strip("(more )").replace(",", ""))
    rest = _shown(page, f"named({launches['names'][more]!r})")
    assert rest["total"][0] == launches["total"][more]
    assert rest["names"][0] == "the rest of launch"
    assert page.evaluate("() => tree.path()") == ["aten::softmax", "launch", "the rest"]
    assert not set(rest["names"][1:]) & set(launches["names"])
    hidden = [int(name.strip("(more )").replace(",", "")) for name in rest["names"] if name.endswith(" more)")]
    assert len(rest["names"]) - 1 - len(hidden) + sum(hidden) == count
    page.evaluate("() => tree.up()")
    assert page.evaluate("() => tree.path()") == ["aten::softmax", "launch"]


_AMOUNTS = (0, 1, 2, 9, 40_000)  # beside the last one, the others are folded


@settings(max_examples=examples(60))
@given(st.lists(st.tuples(st.integers(0, 6), st.sampled_from(_AMOUNTS), st.integers(0, 3)), min_size=1, max_size=40))
def test_search_opens_any_tree(page: Any, rows: list[Row]) -> None:
    calls, sums = tree(rows)
    told = page.evaluate(
        """([parent, look, own, texts, families]) => {
            const paths = { parent, look, host_ns: own, device_ns: own.map(() => 0), slices: own.map(() => 1) };
            const looks = texts.map((_, at) => [at, 3, 0]);
            globalThis.tree = makeTree({ paths, texts, looks, setup: { families } });
            tree.weigh('host');
            tree.searched = looksNamed(tree.run, 'a', false);
            const views = [];
            for (let at = 0; at < 50; at += 1) {
                const { nodes, above, folded, lit } = tree.picture();
                const { text } = tree.found();
                views.push({ root: tree.root, nodes, above, folded: [...folded], lit: [...lit], text });
                const node = nodes.findLast((one, frame) => frame && one.isFolded) ?? nodes.find((one, frame) => frame);
                if (!node) return views;
                tree.root = { paths: node.paths, isFolded: Boolean(node.isFolded) };
            }
            return null;
        }""",
        [calls.parent.tolist(), calls.label.tolist(), sums.exclusive.tolist(), list(NAMES), families("CANN")],
    )
    assert told is not None  # else there is always more
    for view in told:
        root = view["root"]
        tops = [path for path in range(len(calls)) if calls.parent[path] == -1] if root is None else root["paths"]
        inside = [path for path in range(len(calls)) if set(tops) & set(callers(calls, path))]
        nodes = view["nodes"]
        assert nodes[0]["total"] == sum(sums.exclusive[inside])
        for at, node in enumerate(nodes):
            callees = [one for one, above in zip(nodes, view["above"], strict=True) if above == at]
            own = 0 if at == 0 and (root is None or root["isFolded"]) else node["own"]
            if callees:
                assert node["total"] - own - sum(one["total"] for one in callees) < max(nodes[0]["total"] * 0.001, 1)
            named = {path for path in inside if "a" in NAMES[calls.label[path]] and sums.total[path] > 0}
            below = {path for path in range(len(calls)) if set(node["paths"]) & set(callers(calls, path))}
            if view["folded"][at]:
                assert bool(view["lit"][at]) == bool(named & below)
        covered = sum(int(sums.exclusive[path]) for path in inside if named & set(callers(calls, path)))
        if named:
            words = view["text"].split()
            assert (words[0], words[-4:]) == (str(len(named)), ["%", "of", "host", "time"])
            assert float(words[-5]) == pytest.approx(100 * covered / sum(sums.exclusive), abs=0.051)
        else:
            assert view["text"] == "no match"


@pytest.mark.parametrize("weight", ["host", "device", "count"])
def test_every_picture_is_of_the_call_tree(page: Any, weight: str) -> None:
    tables = factories.profile(200)
    _open(page, tables)
    calls = call_tree(tables)
    total = {"host": "host_ns", "device": "device_ns", "count": "total_count"}[weight]
    shown = _shown(page, f"tree.weigh('{weight}')")
    _check(shown)
    assert shown["total"][0] == calls.loc[calls["parent"] == -1, total].sum() > 0
    for name in set(shown["names"][1:]) - {one for one in shown["names"] if one.endswith(" more)")}:
        drawn = sum(amount for one, amount in zip(shown["names"], shown["total"], strict=True) if one == name)
        assert drawn <= calls.loc[calls["name"] == name, total].sum()
    for _ in range(6):
        _check(_shown(page, "named(tree.picture().names[Math.min(3, tree.picture().names.length - 1)])"))


def test_the_root_stays_while_it_has_something_of_the_weight(page: Any) -> None:
    _open(page, factories.profile(200))
    _shown(page, "tree.weigh('device'); named('SoftmaxV2')")
    path = page.evaluate("() => tree.path()")
    _shown(page, "tree.weigh('host')")  # a kernel has no host time, the call that launched it has
    assert page.evaluate("() => tree.path()") == path[:-1]
    assert path[-1] == "SoftmaxV2"
    _shown(page, "tree.weigh('device')")
    assert page.evaluate("() => tree.path()") == path[:-1]


def test_only_weights_that_the_run_has_are_offered(page: Any) -> None:
    kernels = factories.profile(5)["kernels"]
    for tables, weights in (
        (factories.all_tables(kernels=kernels), ["device", "count"]),
        (factories.profile(5) | {"kernels": kernels.iloc[:0]}, ["host", "count"]),
        (factories.all_tables(), []),
    ):
        _open(page, tables)
        assert page.evaluate("() => tree.weights") == weights
    shown = _shown(page)
    assert (shown["names"], shown["nothing"]) == (["everything"], "no slices in this run")


def test_a_search_has_its_share_and_nested_matches_count_once(page: Any) -> None:
    tables = _recursive()
    _open(page, tables)
    calls = call_tree(tables)
    outermost = sum(
        total
        for parent, name, total in zip(calls["parent"], calls["name"], calls["host_ns"], strict=True)
        if name == "a" and parent != 1  # the second one is within the first
    )
    shown = _shown(page, "tree.searched = looksNamed(tree.run, 'A', false)")
    lit = [name for name, is_lit in zip(shown["names"], shown["lit"], strict=True) if is_lit]
    assert lit == ["a", "a", "a"]
    said = page.evaluate("() => tree.found().text").split()
    assert said[:2] + said[3:] == ["3", "frames,", "%", "of", "host", "time"]
    assert float(said[2]) == pytest.approx(100 * outermost / shown["total"][0], abs=0.051)
    _shown(page, "named('c')")
    assert page.evaluate("() => tree.found().text").startswith("1 frame, ")
    assert page.evaluate("() => tree.found().text").count("of the view") == 1
    _shown(page, "tree.searched = looksNamed(tree.run, '^x$', true)")
    assert page.evaluate("() => tree.found().text") == "no match"
    assert _shown(page, "tree.searched = null")["lit"] == [1] * len(_shown(page)["lit"])


def test_a_folded_frame_is_lit_if_it_has_a_match(page: Any) -> None:
    _open(page, factories.profile(20_000, kernel_names=_MANY))
    shown = _shown(page, "tree.weigh('device'); named('aten::softmax'); named('launch')")
    hidden = next(name for name in reversed(_MANY) if name not in shown["names"])
    act = f"tree.searched = Uint8Array.from(tree.run.looks, (look) => Number(tree.run.texts[look[0]] === {hidden!r}))"
    kernels = call_tree(factories.profile(20_000, kernel_names=_MANY))
    if hidden in kernels["name"].astype(str).to_numpy():
        lit = _shown(page, f"tree.root = null; {act}")
        assert any(is_lit and folded for is_lit, folded in zip(lit["lit"], lit["folded"], strict=True))
        assert not all(lit["lit"])


def test_frame_and_run_facts_are_known(page: Any) -> None:
    _open(page, factories.profile(200), mark=simulated_mark(factories.info(simulated=True)))
    shown = _shown(page, "tree.weigh('host'); named('train.py(1): main')")
    assert shown["title"].startswith("simulated NPU · host time: ")
    facts = page.evaluate("() => { const one = tree.picture(); return one.facts(one.names.indexOf('aten::linear')); }")
    assert facts[0].startswith("operator, ")
    assert facts[0].endswith(" calls")
    assert facts[1].startswith("host ")
    assert facts[1].endswith(" self")
    assert facts[2].startswith("device ")
    assert "% of host time" in facts[3]
    assert facts[3].endswith("% of the view")
    counted = page.evaluate("() => { tree.weigh('count'); const one = tree.picture(); return one.facts(1); }")
    assert counted[0].endswith(" including all callees")


def test_a_tower_of_calls_is_cut_and_can_be_climbed(page: Any) -> None:
    depth = 300
    run = factories.profile(1)
    python = run["python"].iloc[[0] * depth].reset_index(drop=True)
    python["start_ns"] += np.arange(depth)
    python["duration_ns"] = 10_000 - 2 * np.arange(depth)
    python["id"], python["depth"] = np.arange(depth), np.arange(depth)
    python["parent_id"] = python["parent_id"].iloc[:0].reindex(range(depth))
    _open(page, factories.all_tables(python=python))
    assert max(_shown(page)["level"]) == 60
    for _ in range(10):
        last = "(({ nodes }) => nodes[nodes.length - 1])(tree.picture())"
        shown = _shown(page, f"tree.root = {{ paths: {last}.paths, isFolded: false }}")
    assert max(shown["level"]) < 60
    assert len(page.evaluate("() => tree.path()")) > depth - 60


def test_calls_of_modules_are_a_tree_of_their_own(page: Any) -> None:
    from tests.analysis.test_launches import training

    _open(page, training(), by_module=True)
    names = set(_shown(page, "tree.weigh('host')")["names"])
    assert {"nn.Module: Linear_0", "(outside of modules)"} <= names
    assert not any("main.py" in name for name in names)


@pytest.mark.parametrize("is_range", [False, True])
@pytest.mark.parametrize("are_rows", [False, True])
def test_partial_sums_equal_the_kernels(page: Any, is_range: bool, are_rows: bool) -> None:
    tables = factories.profile(300)
    timeline = Timeline(tables, factories.info())
    calls = merged_calls(tables)
    low, high = timeline.whole
    window = (low + (high - low) // 5, low + (high - low) // 2 + 137) if is_range else None
    rows: dict[str, Int64] | None = None
    numbers: list[int] = []
    if are_rows:
        rows = {name: np.arange(1, len(tables[name]), 3) for name in ("python", "operators", "kernels")}
        numbers = [timeline.slices.first[name] + int(row) for name, some in rows.items() for row in some]
    found = page.evaluate(
        """async ([data, range, numbers]) => {
            const run = await openRun(bytes(data));
            await related(run);
            const lit = numbers && new Uint8Array(run.count);
            for (const number of numbers ?? []) {
                const table = run.tables.find((one) => number >= one.first && number < one.first + one.all);
                lit[table.at + number - table.first] = 1;
            }
            return ['host', 'device', 'count'].map((weight) => [...ownSums(run, weight, range, lit)]);
        }""",
        [
            b64encode(save_run(timeline).data).decode(),
            None if window is None else [moment_ns - timeline.origin for moment_ns in window],
            numbers if are_rows else None,
        ],
    )
    sums = scoped(calls, tables, Scope(), window, rows)
    assert found == [sums[weight].exclusive.tolist() for weight in ("host", "device", "count")]
    assert 0 < sum(found[0]) < calls.whole(tables)["host"].exclusive.sum() or not (is_range or are_rows)


def _expected(calls: pd.DataFrame, name: str) -> tuple[dict[Any, int], dict[Any, int]]:
    """The amounts of callers and callees of the outermost frames of a name, by path of names."""
    parent, names = calls["parent"].tolist(), calls["name"].astype(str).tolist()
    total, own = calls["host_ns"].tolist(), calls["self_host_ns"].tolist()
    above_: Any = defaultdict(int)
    callees: Any = defaultdict(int)
    for row in range(len(calls)):
        chain, at = [], row
        while at >= 0:
            chain.append(at)
            at = parent[at]
        named = [at for at in chain if names[at] == name]
        if not named:
            continue
        top = named[-1]  # the outermost
        if row == top:
            for end in range(chain.index(top) + 1, len(chain) + 1):
                above_[tuple(names[at] for at in chain[:end])] += total[row]
        within = chain[: chain.index(top) + 1][::-1]
        for end in range(1, len(within) + 1):
            callees[tuple(names[at] for at in within[:end])] += own[row]
    return {path: all_ for path, all_ in above_.items() if all_}, {path: all_ for path, all_ in callees.items() if all_}


def _recursive() -> dict[str, pd.DataFrame]:
    """Calls of a, b and c within each other, and a within a."""
    rows = [("a", 0, 100), ("b", 5, 90), ("a", 10, 60), ("c", 15, 20), ("c", 200, 50), ("a", 205, 30), ("b", 300, 10)]
    names, starts, lengths = zip(*rows, strict=True)
    distinct = list(dict.fromkeys(names))
    python = schema.build(
        "python",
        {
            "start_ns": [1_000_000 + at for at in starts],
            "duration_ns": list(lengths),
            "name": factories.names(distinct, np.array([distinct.index(name) for name in names])),
            "thread_id": [1] * len(rows),
            "id": range(len(rows)),
            "parent_id": pd.array([None, 0, 1, 2, None, 4, None], "Int64"),
            "depth": [0, 1, 2, 3, 0, 1, 0],
        },
    )
    return factories.all_tables(python=python)


@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_callers_and_callees_are_outermost_frames(page: Any, name: str) -> None:
    tables = _recursive()
    _open(page, tables)
    halves = page.evaluate(
        """name => Object.values(tree.sandwich(name)).map(({ nodes, above }) => {
            const paths = [];
            nodes.forEach((node, at) => { paths.push([...(paths[above[at]] ?? []), node.name]); });
            return nodes.map((node, at) => [paths[at], node.total]);
        })""",
        name,
    )
    for half, expected in zip(halves, _expected(call_tree(tables), name), strict=True):
        assert {tuple(path): total for path, total in half} == expected


def test_callers_and_callees_have_graph_weights(page: Any) -> None:
    tables = factories.profile(200)
    _open(page, tables)
    calls = call_tree(tables)
    launched_ns = int(calls.loc[calls["name"] == "launch", "device_ns"].sum())
    found = page.evaluate(
        """() => { tree.weigh('device'); return Object.values(tree.sandwich('launch')).map((half) => [
            half.nodes[0].total, half.facts(0)[1], half.upwards,
            half.nodes.reduce((sum, node, at) => sum + (half.level[at] === 1 ? node.total : 0), 0)]); }"""
    )
    share = f"{100 * launched_ns / int(tables['kernels']['duration_ns'].sum()):.1f} % of all"
    assert found == [[launched_ns, share, True, launched_ns], [launched_ns, share, False, launched_ns]]


def test_keys_walk_from_frame_to_frame_and_from_match_to_match(page: Any) -> None:
    _open(page, factories.profile(200))
    page.evaluate(
        """() => {
            tree.weigh('host');
            globalThis.model = frameModel({}, () => tree.picture(), (node, at) => {
                if (at) tree.root = { paths: node.paths, isFolded: node.look < 0 }; else tree.up();
                model.changed();
            }, () => {}, () => { tree.root = null; model.changed(); });
            globalThis.press = (...keys) => {
                for (const key of keys) model.press(key);
                return model.get('picture').names[model.get('cursor')];
            };
        }"""
    )

    def press(*keys: str) -> object:
        return page.evaluate("keys => press(...keys)", list(keys))

    assert press("ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp") == "train.py(20): step"
    assert press("Enter") == "train.py(20): step"
    assert page.evaluate("() => tree.path()") == ["train.py(1): main", "train.py(20): step"]
    press("Enter")  # the one at the top stays there
    press("Backspace")
    assert page.evaluate("() => tree.path()") == ["train.py(1): main"]
    press("0")
    assert page.evaluate("() => tree.path()") == []
    page.evaluate("() => { tree.upwards = true; model.changed(); }")
    first = press("ArrowUp")
    assert first == "train.py(1): main"
    press("ArrowRight")
    assert page.evaluate("() => model.get('picture').left[model.get('cursor')]") > 0
    assert press("ArrowLeft", "ArrowLeft") == first  # nothing is left of it
    page.evaluate("() => { tree.searched = looksNamed(tree.run, 'aten::add', false); model.changed(); }")
    lit = {at for at, is_lit in enumerate(_shown(page)["lit"]) if is_lit}
    walked = [page.evaluate("() => { press('n'); return model.get('cursor'); }") for _ in range(len(lit) + 1)]
    assert set(walked) == lit
    assert walked[0] == walked[-1]
    assert page.evaluate("() => { press('p'); return model.get('cursor'); }") == walked[-2]
