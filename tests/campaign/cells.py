"""Ten thousand profiled cells in one kernel: memory, descriptors and threads stay where they were."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from queue import Empty

from tests.campaign.tally import Tally
from tests.notebook.cells import output
from tests.notebook.kernel import Kernel

_CELLS = 10_000
_WARM = 1_000  # caches and pools are full by then
_REPORT_EVERY = 100
_MORE_MIB = 64
_LOOK = (
    "import gc, json, os, threading; gc.collect(); "
    "status = dict(line.split(':', 1) for line in open('/proc/self/status') if ':' in line); "
    "print(json.dumps({'rss': int(status['VmRSS'].split()[0]) >> 10, 'peak': int(status['VmHWM'].split()[0]) >> 10, "
    "'files': len(os.listdir('/proc/self/fd')), 'threads': threading.active_count()}))"
)


def run(folder: Path) -> list[Tally]:
    """Run the cells and compare what the kernel holds after them with what it held once warm."""
    folder.mkdir()
    tally = Tally("cells")
    begin = time.monotonic()
    with Kernel(folder) as kernel:
        kernel.run("%load_ext npuprof")
        warm: dict[str, int] = {}
        for number in range(1, _CELLS + 1):
            report = "" if number % _REPORT_EVERY == 0 else "--no-report"
            cell = f"%%npuprof {report} --collector simulator {output(folder / 'runs')}\nvalue = {number}"
            tally.tried += 1
            try:
                reply = kernel.run(cell)
            except Empty:
                tally.hangs += 1
                tally.finds.append(f"cell {number} never ends: {_where(kernel)}")
                break
            if reply.status != "ok":
                tally.crashes += 1
                tally.finds.append(f"cell {number}: {reply.traceback()[-200:]}")
                break
            if number == _WARM:
                warm = _look(kernel)
        held = {} if tally.hangs else _look(kernel)
    tally.peak_mib = held.get("peak", 0)
    bounds = {"rss": _MORE_MIB, "files": 0, "threads": 0}
    tally.finds += [
        f"{name} grew from {warm[name]} to {held[name]} between cell {_WARM} and {_CELLS}"
        for name, more in bounds.items()
        if warm and held and held[name] > warm[name] + more
    ]
    tally.seconds = time.monotonic() - begin
    return [tally]


def _where(kernel: Kernel) -> str:
    """Return where the threads of a kernel stand, or that it is dead."""
    if not kernel.manager.is_alive():
        return "its kernel is dead"
    process = getattr(kernel.manager.provisioner, "process", None)
    command = [str(Path(sys.executable).with_name("py-spy")), "dump", "--pid", str(process.pid if process else 0)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def _look(kernel: Kernel) -> dict[str, int]:
    found: dict[str, int] = json.loads(kernel.run(_LOOK).stream())
    return found
