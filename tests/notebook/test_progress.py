"""The progress of loading in a kernel: one output of the cell, updated, and empty at the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from npuprof.notebook.progress import CellBar, cell_display
from npuprof.progress import Progress
from tests.notebook.kernel import Kernel
from tests.test_progress import timeline

_AT_ONCE = "import npuprof, npuprof.progress as p\np._DELAY_S = p._INTERVAL_S = 0.0"
_INTERRUPT = """
import npuprof.notebook.progress as n, _thread
show = n.CellBar.show
def interrupted(bar, progress):
    show(bar, progress)
    _thread.interrupt_main()
n.CellBar.show = interrupted
npuprof.load({path!r})
"""


@pytest.mark.kernel
@pytest.mark.slow
def test_loading_cell_updates_one_output(tmp_path: Path) -> None:
    path = timeline(tmp_path / "trace_view.json")
    with Kernel(tmp_path) as kernel:
        assert kernel.run(_AT_ONCE).kinds == []
        loaded = kernel.run(f"run = npuprof.load({str(path)!r})")
        ended = kernel.run(_INTERRUPT.format(path=str(path)))
        assert kernel.evaluate("len(run.operators)") == "30000"
    assert loaded.status == "ok"
    assert loaded.kinds == ["display_data", *["update_display_data"] * (len(loaded.kinds) - 1)]
    contents = [content for _, content in loaded.messages]
    assert len({content["transient"]["display_id"] for content in contents}) == 1
    shown = [content["data"] for content in contents]
    assert all(data["text/html"].startswith("<progress value=") for data in shown[:-1])
    assert 'value="1.000"' in shown[-2]["text/html"]
    assert shown[-1] == {"text/plain": "", "text/html": ""}
    assert ended.reply["ename"] == "KeyboardInterrupt"
    assert ended.messages[-2][1]["data"] == shown[-1]


def test_without_a_kernel_there_is_no_place_under_a_cell() -> None:
    assert cell_display() is None


def test_names_of_files_are_text(monkeypatch: pytest.MonkeyPatch) -> None:
    put: list[dict[str, str]] = []
    monkeypatch.setattr(CellBar, "_put", lambda _bar, bundle: put.append(bundle))
    CellBar().show(Progress("<script>.json", 1, 0))
    assert put == [
        {
            "text/plain": "<script>.json: 1 byte read",
            "text/html": "<progress></progress> &lt;script&gt;.json: 1 byte read",
        }
    ]
