"""A pending ``clear_output(wait=True)`` clears what it clears without npuprof, and never for a report."""

from __future__ import annotations

import re

import pytest

from tests.notebook.kernel import Executed, Kernel

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

_CELLS = {
    "the last output": "print('keep me')\nclear_output(wait=True)",
    "a live plot": "for i in range(3):\n    display(i)\n    clear_output(wait=True)",
    "before the output": "for i in range(3):\n    clear_output(wait=True)\n    print(i)",
    "twice": "display(1)\nclear_output(wait=True)\nclear_output(wait=True)\ndisplay(2)\nclear_output(wait=True)",
    "an error": "print(1)\nclear_output(wait=True)\n1 / 0",
    "standard error": "display(1)\nclear_output(wait=True)\nprint(2, file=sys.stderr)",
    "at once": "display(1)\nclear_output(wait=True)\ndisplay(2)\nclear_output()\ndisplay(3)\nclear_output(wait=True)",
    "an update": "h = display(1, display_id=True)\nclear_output(wait=True)\nh.update(2)",
    "a nested cell": "display(1)\nget_ipython().run_cell('clear_output(wait=True)');",
    "a widget": "w = widgets.IntProgress()\ndisplay(1)\nclear_output(wait=True)\nw.value = 3",
    "in a widget of outputs": "out = widgets.Output()\ndisplay(1)\nwith out:\n    clear_output(wait=True)",
    "another thread": "display(1)\nclear_output(wait=True)\n"
    "t = threading.Thread(target=lambda: print(2, flush=True))\nt.start(); t.join()",
    "a magic of npuprof": "display(1)\nclear_output(wait=True)\n%npuprof status",
}


def _shown(executed: Executed) -> list[str]:
    """Return what a front end shows in the end, without npuprof's."""
    shown: list[str] = []
    pending = is_elsewhere = False
    for kind, content in executed.messages:
        if kind == "comm_msg":
            is_elsewhere = bool(content["data"].get("state", {}).get("msg_id", is_elsewhere))
        elif is_elsewhere:
            continue  # in a widget
        elif kind == "clear_output":
            pending = content["wait"]
            shown = shown if pending else []
        elif kind in ("stream", "display_data", "execute_result", "error"):
            text = content.get("text") or content.get("ename") or content["data"]["text/plain"]
            if pending:
                shown, pending = [], False
            if kind == "error" or not re.search("npuprof|collecting", str(content)):
                shown.append(text)
    return shown


def _clears(executed: Executed) -> list[bool]:
    return [content["wait"] for content in executed.contents("clear_output")]


@pytest.mark.parametrize("code", _CELLS.values(), ids=_CELLS.keys())
def test_a_report_clears_nothing(kernel: Kernel, code: str) -> None:
    kernel.run("import sys, threading, ipywidgets as widgets\nfrom IPython.display import clear_output, display")
    plain = kernel.run(code)
    for first, last in (("%%npuprof\n", ""), ("%npuprof start\n", "\n%npuprof stop")):
        profiled = kernel.run(f"{first}{code}{last}")
        kernel.run("import npuprof\n%npuprof stop")  # that of a cell which failed
        assert profiled.displays or "error" in profiled.kinds
        assert _clears(profiled) == _clears(plain)
        assert [kind for kind in profiled.kinds if kind == "comm_msg"] == [
            kind for kind in plain.kinds if kind == "comm_msg"
        ]
        assert _shown(profiled) == _shown(plain)


def test_the_next_output_clears_the_report_too(kernel: Kernel) -> None:
    executed = kernel.run(
        "%npuprof start\nfrom IPython.display import clear_output, display\ndisplay(1)\nclear_output(wait=True)\n"
        "%npuprof stop\ndisplay(2)"
    )
    assert _shown(executed) == ["2"]
    assert executed.kinds[-2:] == ["clear_output", "display_data"]
