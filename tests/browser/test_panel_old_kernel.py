"""The panel where what is pressed waits for the running cell: with ipykernel 6, which has no subshells."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest

from tests.browser.notebook_page import OpenNotebook

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(int(version("ipykernel").split(".")[0]) > 6, reason="this ipykernel answers while a cell runs"),
]

_PANEL = "import npuprof\nnpuprof.panel()"
_SETUP = "from npuprof.simulator import npu\na = npu.ones((64, 64))\nfloat((a @ a).sum())"
_LONG = """import time
print("begun", flush=True)
for _ in range({tenths}):
    b = a @ a + a
    time.sleep(0.1)
print("ended by itself")"""
_SAYS = "Stop acts then. To have a report now, interrupt the kernel."


@pytest.mark.parametrize("ended_by", ["stop", "interrupt"])
def test_the_panel_says_when_stop_acts(open_notebook: OpenNotebook, tmp_path: Path, ended_by: str) -> None:
    cells = [_PANEL, _SETUP, _LONG.format(tenths=60 if ended_by == "stop" else 600)]
    notebook = open_notebook(cells, own_kernel=True)
    panel = notebook.run(0)
    notebook.run(1)
    panel.get_by_role("button", name="Start", exact=True).click()
    panel.locator(".npuprof-phase", has_text="Recording").wait_for()
    panel.get_by_text(_SAYS).wait_for()
    output = notebook.start(2).locator(".jp-OutputArea-output")
    output.get_by_text("begun").wait_for()
    assert panel.get_by_text(_SAYS).is_visible()
    notebook.page.wait_for_timeout(1_500)
    notebook.page.screenshot(path=tmp_path / "recording.png")
    runs = panel.get_by_role("grid", name="Runs", exact=True).locator("tbody tr[data-id]", has_text="this kernel")
    if ended_by == "stop":
        panel.get_by_role("button", name="Stop", exact=True).click()
        output.get_by_text("ended by itself").wait_for()
    else:
        notebook.page.get_by_role("menuitem", name="Kernel", exact=True).click()
        notebook.page.locator(".lm-Menu-itemLabel", has_text="Interrupt Kernel").click()
        output.get_by_text("KeyboardInterrupt").first.wait_for()
        panel.get_by_role("button", name="Stop", exact=True).click()
    runs.wait_for()
    panel.get_by_text("simulated NPU", exact=True).wait_for()
