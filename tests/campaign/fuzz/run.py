"""The fuzzer as a whole: a warm process for each core, watched for death and silence; finds go to the corpus."""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.campaign.fuzz.targets import TARGETS, total_share
from tests.campaign.speed import slowness
from tests.campaign.tally import Tally

CORPUS = Path(__file__).parents[1] / "corpus"
_SILENT_S = 120.0  # a process that tries no other input for this long hangs where no signal reaches it
_LOOK_EVERY_S = 0.2
_MEMORY = Path("/dev/shm")


class Fuzzer:
    """All targets, which any number of threads take one after another, each with a process of its own.

    Parameters
    ----------
    inputs
        How many damaged inputs to try, of all targets.
    seed
        Of the damages.

    Attributes
    ----------
    tallies
        What was found, of each target that is done; new finds are in the corpus too.
    """

    def __init__(self, inputs: int, seed: int) -> None:
        self._shares = {name: max(1, inputs * target.share // total_share()) for name, target in TARGETS.items()}
        self._seed = seed
        self._waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
        for name in TARGETS:
            self._waiting.put(name)
        place = _MEMORY if os.access(_MEMORY, os.W_OK) else None
        self._folder = tempfile.TemporaryDirectory(prefix="npuprof-fuzz-", dir=place, ignore_cleanup_errors=True)
        self.tallies: list[Tally] = []

    def __enter__(self) -> Fuzzer:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def work(self, number: int) -> None:
        """Take targets until there are none."""
        worker = _Worker(Path(self._folder.name) / str(number))
        with suppress(queue.Empty):
            while True:
                name = self._waiting.get_nowait()
                tally = worker.tally(name, self._shares[name], self._seed)
                self.tallies.append(tally)
                print(f"{tally.part}: {tally.tried} inputs in {tally.seconds:.0f} s, {tally.finds}", flush=True)
        worker.end()


class _Worker:
    """A process that takes one target after another; another one takes its place where it dies or hangs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None
        self._result = folder / "result.json"

    def tally(self, name: str, inputs: int, seed: int) -> Tally:
        """Run a trial of a target, and return its findings."""
        if self._process is None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder.mkdir()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.campaign.fuzz.worker", str(self._folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
            )
        self._result.unlink(missing_ok=True)
        assert self._process.stdin is not None
        self._process.stdin.write(f"{name}\t{inputs}\t{seed}\t{self._result}\n")
        self._process.stdin.flush()
        is_silent = self._wait()
        tally = _tally(name, self._plain())
        if is_silent or self._process.poll() is not None:
            self._add_end(tally, name, is_silent=is_silent)
        return tally

    def end(self) -> None:
        """End the process in order."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait()

    def _plain(self) -> dict[str, Any]:
        plain: dict[str, Any] = json.loads(self._result.read_text()) if self._result.is_file() else {}
        return plain

    def _wait(self) -> bool:
        """Wait until the process is done with a target, or has ended; kill a silent one, and return whether it was."""
        assert self._process is not None
        begin, limit_s = time.time(), _SILENT_S * slowness()
        current = self._result.with_suffix(".current")
        while self._process.poll() is None and not self._plain().get("done"):
            time.sleep(_LOOK_EVERY_S)
            newest = max([begin, *(path.stat().st_mtime for path in (self._result, current) if path.is_file())])
            if time.time() - newest > limit_s:
                self._process.kill()
                self._process.wait()
                return True
        return False

    def _add_end(self, tally: Tally, name: str, *, is_silent: bool) -> None:
        assert self._process is not None
        current = self._result.with_suffix(".current")
        damage = json.loads(current.read_text()) if current.is_file() else {}
        tally.hangs += is_silent
        tally.crashes += not is_silent
        words = (self._process.stderr.read() if self._process.stderr else "").strip().splitlines()[-1:]
        status = self._process.returncode
        signature = "a process went silent" if is_silent else f"a process ended with {status}: {words}"
        tally.finds.append(signature)
        _keep(name, signature, damage)
        self._process = None


def _tally(name: str, plain: dict[str, Any]) -> Tally:
    tally = Tally(
        f"fuzz {name}",
        tried=plain.get("tried", 0),
        crashes=plain.get("crash", 0),
        hangs=plain.get("hang", 0),
        losses=plain.get("loss", 0),
        peak_mib=plain.get("peak_mib", 0),
        seconds=plain.get("seconds", 0.0),
    )
    for signature, damage in plain.get("finds", {}).items():
        tally.finds.append(f"{damage['case']}: {signature}")
        _keep(name, signature, damage)
    return tally


def _keep(name: str, signature: str, damage: dict[str, Any]) -> None:
    CORPUS.mkdir(exist_ok=True)
    path = CORPUS / f"{name.replace(' ', '_')}.jsonl"
    known = path.read_text().splitlines() if path.is_file() else []
    line = json.dumps({"target": name, "signature": signature, **damage})
    if line not in known:
        path.write_text("\n".join([*known, line, ""]))
