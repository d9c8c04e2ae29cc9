"""The panel in a real kernel."""

from __future__ import annotations

import pytest

from tests.notebook.kernel import Kernel

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

_WIDGET = "application/vnd.jupyter.widget-view+json"
_SHOW = "import npuprof; npuprof.panel(); panel = npuprof.notebook.panel._live._panel"


def test_the_panel_is_shown_by_the_magic_and_by_name(kernel: Kernel) -> None:
    shown = kernel.run("%npuprof panel")
    assert shown.status == "ok", shown.traceback()
    assert _WIDGET in shown.displays[0]
    by_name = kernel.run("import npuprof; npuprof.panel()").displays[0]
    assert by_name[_WIDGET]["model_id"] == shown.displays[0][_WIDGET]["model_id"]


def test_widget_messages_are_not_sent_back_to_the_main_thread(kernel: Kernel) -> None:
    kernel.run("%npuprof panel")
    routed = "[w for w in __import__('npuprof').notebook.panel._live.view.widget.children if w.comm is None]"
    assert kernel.evaluate(routed) == "[]"
    route = "getattr(__import__('npuprof').notebook.panel._live.view._stop.comm, '_reply_subshell_for', None)"
    assert kernel.evaluate(route) == "None"


def test_panel_reports_the_requested_cell(kernel: Kernel) -> None:
    kernel.run(_SHOW)
    kernel.run("panel.choose('activities', ('cpu',)); panel.set_mode('next cell')")
    cell = kernel.run("sum(range(10))")
    assert cell.value == "45"
    assert cell.has_report
    assert not kernel.run("1").has_report


def test_panel_cell_has_steps_and_lines(kernel: Kernel) -> None:
    kernel.run("from npuprof.simulator import npu\nx = npu.ones((8, 8))")
    kernel.run(_SHOW)
    kernel.run("panel.choose('collector', 'simulator'); panel.choose('activities', ('cpu', 'npu'))")
    kernel.run("panel.set_mode('next cell')")
    cell = kernel.run("from __future__ import annotations\nfor _ in range(4):\n    y = x @ x\n    z = y + x\n_, 6 * 7")
    assert str(cell.value).endswith("42)"), cell.traceback()
    assert cell.has_report
    assert kernel.evaluate("len(npuprof.last().steps)") == "4"
    code = "npuprof.last().code().to_frame().dropna(subset=['line']).set_index('line')"
    assert kernel.evaluate(f"{code}.launches[[3, 4]].tolist()") == "[4, 4]"
    assert kernel.evaluate(f"{code}.text[3]") == "'    y = x @ x'"
    assert not kernel.run("for _ in range(4): x @ x").has_report


def test_unloading_ends_the_panel_and_a_new_one_can_be_made(kernel: Kernel) -> None:
    kernel.run(f"{_SHOW}; panel.set_mode('every cell')")
    assert kernel.run("%unload_ext npuprof").status == "ok"
    assert not kernel.run("1").has_report
    assert _WIDGET in kernel.run("npuprof.panel()").displays[0]
    assert not kernel.run("1").has_report
    kernel.run("%load_ext npuprof")


@pytest.mark.long
def test_a_panel_whose_widgets_were_closed_is_made_anew(kernel: Kernel) -> None:
    before = kernel.run("import npuprof; npuprof.panel()").displays[0][_WIDGET]["model_id"]
    kernel.run("import ipywidgets; ipywidgets.Widget.close_all()")
    shown = kernel.run("npuprof.panel()")
    assert shown.displays, shown.value
    assert shown.displays[0][_WIDGET]["model_id"] != before
    assert kernel.run("npuprof.panel()").displays[0][_WIDGET]["model_id"] == shown.displays[0][_WIDGET]["model_id"]


@pytest.mark.long
def test_a_script_has_no_panel() -> None:
    import npuprof

    with pytest.raises(npuprof.NpuprofError, match="needs a notebook"):
        npuprof.panel()
