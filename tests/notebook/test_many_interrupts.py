"""Several interrupts within 0.2 s, as impatient users send them, leave nothing of a profiled cell behind."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from tests.notebook.kernel import Kernel

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

_STATE = """(
    sorted(vars(__import__("builtins"))),
    __import__("sys").gettrace(),
    __import__("sys").getprofile(),
    __import__("signal").getsignal(2).__name__,
    [type(each).__name__ for each in get_ipython().ast_transformers],
    type(get_ipython().compile).__name__,
    {name: len(hooks) for name, hooks in get_ipython().events.callbacks.items()},
    sorted(each.name for each in __import__("threading").enumerate() if "npuprof" in each.name),
    sorted(name for name in get_ipython().user_ns if not name.startswith("_")),
)"""

_LOOPS = {
    "a loop": "print('running', flush=True)\nfor i in iter(int, 1):\n    j = i\n    k = j",
    "a wait": "print('running', flush=True)\nfor i in range(10**6):\n    time.sleep(0.01)",
    "an await": "print('running', flush=True)\nwhile True:\n    await asyncio.sleep(0.001)",
    "a caught interrupt": (
        "try:\n    print('running', flush=True)\n    while True:\n        j = 1\n"
        "except KeyboardInterrupt:\n    for i in range(3):\n        time.sleep(0.05)"
    ),
}


@pytest.mark.parametrize("gap_s", [*(pytest.param(gap_s, marks=pytest.mark.long) for gap_s in (0.0, 0.02)), 0.06])
@pytest.mark.parametrize("code", _LOOPS.values(), ids=_LOOPS.keys())
def test_many_interrupts_leave_nothing_behind(tmp_path: Path, code: str, gap_s: float) -> None:
    with Kernel(tmp_path) as kernel:
        kernel.run("%load_ext npuprof\nimport asyncio, time\ni = j = k = 0")
        kernel.run("%%npuprof\nfor i in range(2):\n    j = i")  # the first report imports, and its widget listens
        before = kernel.evaluate(_STATE)
        process = int(kernel.evaluate("__import__('os').getpid()"))

        def interrupt_often() -> None:
            for _ in range(4):
                os.kill(process, signal.SIGINT)
                time.sleep(gap_s)

        sender = threading.Thread(target=interrupt_often)
        kernel.run(f"%%npuprof\n{code}", on_stream=sender.start)
        sender.join()
        kernel.wait_until_nothing_is_aborted()
        kernel.run("%npuprof stop")  # an error unless the end of the run was interrupted, too
        assert "nothing is collecting" in kernel.run("%npuprof").stream()
        threads = "__import__('threading').enumerate()"
        kernel.run(f"[each.join() for each in {threads} if each.name == 'npuprof-patience'];")
        assert kernel.evaluate(_STATE) == before
        again = kernel.run("%%npuprof\nfor i in range(3):\n    j = i\nj")
        assert (again.status, again.value) == ("ok", "2")
        assert again.has_report
        assert kernel.evaluate("__import__('npuprof').last().statements['line'].tolist()") == "[2, 3, 2, 3, 2, 3, 2, 4]"
