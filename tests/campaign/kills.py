"""A recording whose process is killed at any moment opens afterwards, with what had ended by then.

The child tells its progress as lines of text: after each step that ended, when it stops, and when it is done. It is
killed after a line, or a little later; what it told before that must be in the recording.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import npuprof
from npuprof.errors import NpuprofError
from npuprof.profiles.profile import Profile
from tests.campaign.speed import slowness
from tests.campaign.tally import Tally

_KILLS = 45
_STEPS = 5
_STEPS_WITH_STACKS = 4  # of 30 ms each: the stacks of the last tenth of a second may be gone
_TIMEOUT_S = 60.0
_CHILD = f"""
import sys, time
import npuprof
from npuprof.simulator import npu
print("begun", flush=True)
prof = npuprof.profile(collector="simulator", output=sys.argv[1], stacks=True)
with prof:
    print("started", flush=True)
    a = npu.ones((64, 64))
    for step in range({_STEPS}):
        npuprof.mark(f"mark {{step}}")
        until = time.perf_counter() + 0.03
        while time.perf_counter() < until:
            a = a @ a * 0
        prof.step()
        print(f"step {{step}}", flush=True)
    print("stopping", flush=True)
print("done", flush=True)
"""
_PHASES = ("begun", "started", *(f"step {step}" for step in range(_STEPS)), "stopping", "done")


def run(folder: Path) -> list[Tally]:
    """Kill a recording after each of its phases, and at random moments between them."""
    folder.mkdir()
    tally = Tally("kills")
    begin = time.monotonic()
    chance = random.Random(1)
    for number in range(_KILLS):
        phase = _PHASES[number % len(_PHASES)]
        delay_s = 0.0 if number < len(_PHASES) else chance.random() * 0.05
        _kill(tally, folder / f"{number}", phase, delay_s)
    tally.seconds = time.monotonic() - begin
    return [tally]


def _kill(tally: Tally, output: Path, phase: str, delay_s: float) -> None:
    tally.tried += 1
    words = f"killed {delay_s * 1000:.0f} ms after {phase!r}"
    child = subprocess.Popen([sys.executable, "-c", _CHILD, str(output)], stdout=subprocess.PIPE, text=True)
    told: list[str] = []
    assert child.stdout is not None
    for line in child.stdout:
        told.append(line.strip())
        if told[-1] == phase:
            time.sleep(delay_s)
            child.send_signal(signal.SIGKILL)
            break
    told += [line.strip() for line in child.stdout]
    child.wait(_TIMEOUT_S * slowness())
    ended = sum(line.startswith("step") for line in told)
    recordings = list(output.glob("run_*")) if output.is_dir() else []
    if not recordings:
        if ended or "started" in told:
            tally.losses += 1
            tally.finds.append(f"{words}: there is no recording")
        return
    try:
        found = npuprof.load(recordings[0])
    except NpuprofError as error:
        if ended:
            tally.losses += 1
            tally.finds.append(f"{words}: {ended} steps had ended, but {error}"[:300])
        return
    except Exception as error:  # noqa: BLE001 - a find
        tally.crashes += 1
        tally.finds.append(f"{words}: {type(error).__name__}: {error}"[:300])
        return
    _compare(tally, words, found, ended, is_whole="done" in told)


def _compare(tally: Tally, words: str, found: Profile, ended: int, *, is_whole: bool) -> None:
    wanted = {f"mark {step}" for step in range(ended)}
    marks = set(found.marks["message"].astype(str))
    for name, is_there in (
        (f"{ended} steps", len(found.steps) >= ended),
        ("marks", wanted <= marks),
        ("Python stacks", ended < _STEPS_WITH_STACKS or len(found.python) > 0),
        ("a note", is_whole or bool(found.notes["severity"].isin(("warning", "error")).any())),
    ):
        if not is_there:
            tally.losses += 1
            tally.finds.append(f"{words}: the recording lacks {name}")
