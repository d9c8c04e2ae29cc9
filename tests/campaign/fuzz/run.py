"""The fuzzer as a whole: processes that share the formats, watched for death and silence; finds go to the corpus."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.campaign.fuzz import seeds
from tests.campaign.tally import Tally

CORPUS = Path(__file__).parents[1] / "corpus"
_SILENT_S = 180.0  # without a result after this long beyond its last one, a process hangs where no signal reaches it
_SINGLE_FILES = 4  # a single file loads this much quicker than a whole result, so it gets as many more inputs


def run(folder: Path, inputs: int, processes: int, seed: int) -> list[Tally]:
    """Try `inputs` damaged results of all formats below `folder`; new finds are written to the corpus."""
    weights = {name: _SINGLE_FILES if name.startswith("file ") else 1 for name in seeds.SEEDS}
    for name in seeds.SEEDS:
        seeds.write(name, folder / "seeds" / name)
    with ThreadPoolExecutor(processes) as pool:
        shares = {name: inputs * weight // sum(weights.values()) for name, weight in weights.items()}
        tallies = pool.map(lambda name: _one(name, folder, shares[name], seed), seeds.SEEDS)
        return list(tallies)


def _one(name: str, folder: Path, inputs: int, seed: int) -> Tally:
    result = folder / f"{name.replace(' ', '_')}.json"
    command = [sys.executable, "-m", "tests.campaign.fuzz.worker", name, str(folder / "seeds" / name)]
    process = subprocess.Popen(
        [*command, str(inputs), str(seed), str(result)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    is_silent = _wait(process, result)
    plain: dict[str, Any] = json.loads(result.read_text()) if result.is_file() else {}
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
        tally.finds.append(signature)
        _keep(name, signature, damage)
    if is_silent or process.returncode:
        current = result.with_suffix(".current")
        damage = current.read_text() if current.is_file() else "[]"
        tally.hangs += is_silent
        tally.crashes += not is_silent
        words = (process.stderr.read() if process.stderr else "").strip().splitlines()[-1:]
        signature = "a process went silent" if is_silent else f"a process ended with {process.returncode}: {words}"
        tally.finds.append(signature)
        _keep(name, signature, damage)
    return tally


def _wait(process: subprocess.Popen[str], result: Path) -> bool:
    """Wait for the end of a process; kill one that writes no result for too long, and return whether that was so."""
    current = result.with_suffix(".current")
    while True:
        try:
            process.wait(5)
            return False
        except subprocess.TimeoutExpired:
            newest = max((path.stat().st_mtime for path in (result, current) if path.is_file()), default=time.time())
            if time.time() - newest > _SILENT_S:
                process.kill()
                process.wait()
                return True


def _keep(name: str, signature: str, damage: str) -> None:
    CORPUS.mkdir(exist_ok=True)
    path = CORPUS / f"{name.replace(' ', '_')}.jsonl"
    known = path.read_text().splitlines() if path.is_file() else []
    line = json.dumps({"format": name, "signature": signature, "mutations": json.loads(damage)})
    if line not in known:
        path.write_text("\n".join([*known, line, ""]))
