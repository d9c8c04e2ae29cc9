"""The notebooks: executed, and as committed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests import saved_notebooks
from tests.browser.unpacking import data_of
from tests.may_differ import MAY_DIFFER

_FOLDER = Path(__file__).parent.parent / "notebooks"
_NAMES = ("load_my_result", "explorer_tour", "compare", "cluster", "two_ranks")
_CELL_BYTES = 1_000_000
_SMALL_FIGURE = 10_000  # characters: one that is restyled may be shown again
_NOTEBOOK_BYTES = {"two_ranks": 800_000, "torch_simulated": 1_500_000}
_PLOTLY = "application/vnd.plotly.v1+json"
_SAVED = "npuprof-saved-data"


def read(name: str) -> Any:
    return saved_notebooks.read(_FOLDER / f"{name}.ipynb")


def code(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.kernel
@pytest.mark.long
@pytest.mark.parametrize("name", _NAMES)
def test_it_runs_from_top_to_bottom_and_shows_what_is_saved(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook = read(name)
    made = saved_notebooks.execute(notebook, tmp_path, monkeypatch)
    assert saved_notebooks.changes(read(name), notebook, MAY_DIFFER.get(name, {})) == []
    assert list(made.glob("npuprof-*"))


@pytest.mark.parametrize("name", _NAMES)
def test_it_is_committed_with_its_outputs_and_without_a_trace_of_a_machine(name: str) -> None:
    for cell in code(read(name)):
        saved = json.dumps(cell.outputs)
        assert (
            cell.id in saved_notebooks.LIVE
            or cell.outputs
            or not re.search(r"^\S+(\.|$)", cell.source.splitlines()[-1])
        )
        assert len(saved) <= _CELL_BYTES
        assert re.search(r"(src|href)=.{0,2}http|/tmp/|/home/|/root/", saved) is None
        assert all(output.output_type != "error" for output in cell.outputs)
        assert all(cell.id not in saved_notebooks.LIVE or not cell.outputs for _ in (cell,))


def test_the_tour_shows_every_view() -> None:
    cells = {cell.id: cell for cell in code(read("explorer_tour"))}
    views = ("timeline", "flame", "steps", "memory", "counters", "kernel", "roofline", "restyle", "missing")
    for view in views:
        (output,) = cells[view].outputs
        assert "simulated" in output.data[_PLOTLY]["layout"]["title"]["text"]
        assert output.data[_PLOTLY]["data"] or view == "missing"


def test_the_loaded_result_says_that_it_is_simulated() -> None:
    cells = {cell.id: cell for cell in code(read("load_my_result"))}
    assert "SIMULATED NPU" in cells["path"].outputs[0].data["text/plain"]
    assert "SIMULATED NPU" in cells["path"].outputs[0].data["text/html"]


def test_each_fix_is_described_in_a_sentence_and_drawn() -> None:
    cells = {cell.id: cell for cell in code(read("compare"))}
    for fix, told in (("fused", "of it is computing."), ("loader", "of it is an idle NPU, not your kernels.")):
        words, *figures = cells[fix].outputs
        assert told in words.data["text/plain"]
        assert "SIMULATED NPU" in words.data["text/html"]
        assert len([figure.data[_PLOTLY] for figure in figures]) == 2
        assert len(json.dumps(cells[fix].outputs)) < 500_000
    assert cells["gate"].outputs[0].text.startswith("the gate fails: A step of this change is ")


def test_each_fault_planted_in_64_ranks_is_found_and_called_simulated() -> None:
    cells = {cell.id: cell for cell in code(read("cluster"))}
    (overview,) = cells["overview"].outputs
    assert overview.data["text/plain"].startswith("Rank 21 is slow. ")
    assert "SIMULATED NPU" in overview.data["text/html"]
    verdicts = cells["found"].outputs[0].text
    told = {
        "nothing": "Communication is not hidden by kernels",
        "a link": "The link between ranks 40 and 41 is slow",
        "a host": "The host of ranks 8-15 is late",
        "a stage": "Pipeline imbalance, not a slow card",
    }
    assert [line.split(". ")[0] for line in verdicts.splitlines()] == [f"{of} planted: {it}" for of, it in told.items()]
    gains = re.findall(r"([0-9.]+) ms", cells["mended"].outputs[0].text)
    assert float(gains[0]) == pytest.approx(float(gains[1]), rel=0.1)


@pytest.mark.long
def test_the_findings_of_two_ranks_name_their_faults_and_predict_what_mending_them_gains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cells = {cell.id: cell.source.replace("%load_ext npuprof", "") for cell in code(read("two_ranks"))}
    model = cells["model"].splitlines()

    def line_of(text: str) -> str:
        (number,) = [number for number, code in enumerate(model, 1) if text in code]
        return f"model.py:{number}"

    names: dict[str, Any] = {}
    for cell, source in cells.items():
        exec(compile(source, f"{cell}.py", "exec"), names)
    waits, late = (run.advice() for run in names["runs"])
    assert waits["waiting"].place == "rank 1"
    assert set(names["runs"].blame()["root_rank"]) == {1}
    starved = late["host_bound"].detail
    assert f"data loader (10 calls; {line_of('DataLoader')})" in starved
    assert f"since the host waited for the NPU (10 calls; {line_of('loss.item()')})" in starved
    assert line_of("write_log") in starved
    assert line_of("np.sqrt(second)") in late["small_kernels"].detail
    assert line_of("return 0.5 * x * (1 + np.tanh") in late["fusible_repeats"].detail
    assert late.step_ns / 1e6 == pytest.approx(names["step_ms"]["before"])
    found_ms = names["step_ms"]["before"] - names["step_ms"]["after"]
    assert names["predicted_ms"] == pytest.approx(found_ms, rel=0.1)
    mended = names["mended"][1].advice()
    assert mended.parts()["computing"] > 0.5 * mended.step_ns
    assert mended["host_bound"].state == "clean"


@pytest.mark.parametrize("path", sorted(_FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_holds_each_figure_once(path: Path) -> None:
    notebook: Any = saved_notebooks.read(path)
    bundles = [output.get("data", {}) for cell in code(notebook) for output in cell.outputs]
    shown = [json.dumps(bundle[_PLOTLY]["data"], sort_keys=True) for bundle in bundles if _PLOTLY in bundle]
    shown += [data_of(html).hex() for bundle in bundles if _SAVED in (html := bundle.get("text/html", ""))]
    large = [figure for figure in shown if len(figure) > _SMALL_FIGURE]
    assert len(set(large)) == len(large)
    assert shown
    assert path.stat().st_size <= _NOTEBOOK_BYTES.get(path.stem, 1_300_000)
