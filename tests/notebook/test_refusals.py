"""In a real kernel: what a front end cannot do is refused with the reason, and the cell does not run."""

from __future__ import annotations

import pytest

from npuprof.options.specification import FRONT_ENDS
from tests.notebook.kernel import Kernel

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

# An option that each front end lacks, the words that ask for it, and a part of the reason.
_LACKING = {
    "acl": ("--modules", "CANN's operators only"),
    "simulator": ("--dvpp", "no such hardware"),
    "torch_npu": ("--devices 0", "the device that the process uses"),
    "mindspore": ("--memory --memory-freq 20", "a fixed rate"),
    "tensorflow": ("--op-attr", "no operator attributes"),
    "msprof": ("--devices 0", "the device that the process uses"),
    "kineto": ("--activities cpu --storage-limit 500", "knows no NPU"),
}


def test_every_front_end_is_asked() -> None:
    assert set(_LACKING) == set(FRONT_ENDS)


@pytest.mark.parametrize("collector", _LACKING)
def test_a_cell_whose_options_are_refused_does_not_run(kernel: Kernel, collector: str) -> None:
    words, reason = _LACKING[collector]
    executed = kernel.run(f"%%npuprof --collector {collector} {words}\nran = True")
    assert executed.reply["ename"] == "UsageError"
    assert f"{collector} has no" in executed.reply["evalue"]
    assert reason in executed.reply["evalue"]
    assert not executed.has_report
    kernel.wait_until_nothing_is_aborted()
    assert kernel.evaluate("'ran' in globals()") == "False"


@pytest.mark.parametrize("collector", ["acl", "torch_npu", "mindspore", "tensorflow", "msprof", "kineto"])
def test_a_cell_whose_front_end_is_absent_does_not_run(kernel: Kernel, collector: str) -> None:
    kernel.run(
        "import os, sys\nos.environ.update(PATH='', ASCEND_HOME_PATH='')\n"
        "for name in 'acl', 'torch', 'torch_npu', 'mindspore', 'npu_bridge', 'npu_device':\n"
        "    sys.modules[name] = None"
    )
    aic = " --aic-metrics PipeUtilization" if collector == "tensorflow" else ""
    executed = kernel.run(f"%%npuprof --collector {collector}{aic} --no-marks\nran = True")
    assert executed.reply["ename"] == "FrontEndAbsentError", executed.reply
    kernel.wait_until_nothing_is_aborted()
    assert kernel.evaluate("'ran' in globals()") == "False"
