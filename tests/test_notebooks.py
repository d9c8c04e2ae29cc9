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
from tests.notebook_claims import CLAIMS

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
def test_runs_as_saved_and_claims_hold(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = saved_notebooks.with_claims(read(name), CLAIMS.get(name, {}))
    made = saved_notebooks.execute(notebook, tmp_path, monkeypatch)
    assert saved_notebooks.changes(read(name), notebook, MAY_DIFFER.get(name, {})) == []
    assert list(made.glob("npuprof-*"))


@pytest.mark.parametrize("name", _NAMES)
def test_outputs_are_committed_without_machine_traces(name: str) -> None:
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
    assert "simulated NPU" in cells["path"].outputs[0].data["text/plain"]
    assert "simulated NPU" in cells["path"].outputs[0].data["text/html"]


def test_each_fix_is_described_in_a_sentence_and_drawn() -> None:
    cells = {cell.id: cell for cell in code(read("compare"))}
    for fix, told in (("fused", "`Gelu` replaces `Mul, Add, Tanh`"), ("loader", "is idle for less time: data loader")):
        (words,) = cells[fix].outputs
        assert told in " ".join(words.data["text/plain"].split())
        assert "simulated NPU" in words.data["text/html"]
        assert "Flame graph of the difference" in words.data["text/html"]
        assert len(json.dumps(cells[fix].outputs)) < 500_000
    assert cells["gate"].outputs[0].text.startswith("the gate fails: A step of this change is ")


def test_each_fault_planted_in_64_ranks_is_found_and_called_simulated() -> None:
    cells = {cell.id: cell for cell in code(read("cluster"))}
    (overview,) = cells["overview"].outputs
    assert "\nRank 21 takes " in overview.data["text/plain"]
    assert "simulated NPU" in overview.data["text/html"]
    verdicts = cells["found"].outputs[0].text
    told = {
        "nothing": "Data moves between the ranks",
        "a link": "The link between ranks 40 and 41 is slow",
        "a host": "The host of ranks 8-15 is ",
        "a stage": "Stage 3 (ranks 48-63) takes ",
    }
    for line, (of, it) in zip(verdicts.splitlines(), told.items(), strict=True):
        assert line.startswith(f"{of} planted: {it}")
    gains = re.findall(r"([0-9.]+) ms", cells["mended"].outputs[0].text)
    assert float(gains[0]) == pytest.approx(float(gains[1]), rel=0.1)


@pytest.mark.parametrize("path", sorted(_FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_holds_each_figure_once(path: Path) -> None:
    notebook: Any = saved_notebooks.read(path)
    bundles = [output.get("data", {}) for cell in code(notebook) for output in cell.outputs]
    shown = [json.dumps(bundle[_PLOTLY]["data"], sort_keys=True) for bundle in bundles if _PLOTLY in bundle]
    shown += [data_of(html).hex() for bundle in bundles if _SAVED in (html := bundle.get("text/html", ""))]
    large = [figure for figure in shown if len(figure) > _SMALL_FIGURE]
    assert len(set(large)) == len(large)
    assert path.stat().st_size <= _NOTEBOOK_BYTES.get(path.stem, 1_300_000)
