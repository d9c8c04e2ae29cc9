"""Writes small traces in the form of torch's profiler: numbers with three decimals that count from a base moment."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BASE_NS = 1_790_857_026_000_000_000
OFFSET_US = 7_700_000_000_000  # near the end of the three months for which a base is used
PROCESS = 400


def ns(us: float) -> int:
    """Return the moment of a time that a test gives in microseconds."""
    return BASE_NS + OFFSET_US * 1000 + round(us * 1000)


@dataclass
class KinetoTrace:
    """Collects events; they are written as text, so that no number passes through a float on the way."""

    events: list[str] = field(default_factory=list)
    base_behind: bool = False
    head: dict[str, Any] = field(default_factory=lambda: {"schemaVersion": 1, "deviceProperties": []})

    def add(self, phase: str, name: str, us: float, **parts: Any) -> None:
        parts = {"pid": PROCESS, "tid": PROCESS, **parts}
        rest = "".join(f", {json.dumps(key)}: {json.dumps(value)}" for key, value in parts.items())
        moment = f"{OFFSET_US + int(us)}.{round(us % 1 * 1000):03d}"
        self.events.append(f'{{"ph": "{phase}", "name": {json.dumps(name)}, "ts": {moment}{rest}}}')

    def slice(self, category: str, name: str, us: float, lasting_us: float, **args: Any) -> None:
        lane = args.pop("lane", {})
        self.add("X", name, us, cat=category, dur=lasting_us, args=_spaced(args), **lane)

    def operator(self, name: str, us: float, lasting_us: float, external_id: int, **args: Any) -> None:
        self.slice("cpu_op", name, us, lasting_us, External_id=external_id, **args)

    def memory(self, us: float, size: int, address: int, total: int, device: int = -1, reserved: int = 0) -> None:
        args = {
            "Total Reserved": reserved,
            "Total Allocated": total,
            "Bytes": size,
            "Device Id": device,
            "Device Type": 0 if device < 0 else 1,
            "Addr": address,
        }
        self.add("i", "[memory]", us, cat="cpu_instant_event", s="t", args=args)

    def on_gpu(self, category: str, name: str, us: float, lasting_us: float, device: int, **args: Any) -> None:
        lane = {"pid": device, "tid": args.get("stream", 7)}
        self.slice(category, name, us, lasting_us, device=device, context=1, lane=lane, **args)

    def text(self) -> str:
        base = {"baseTimeNanoseconds": BASE_NS}
        head = {**self.head, **({} if self.base_behind else base)}
        tail = {"traceName": "t.json", **(base if self.base_behind else {})}
        inner = ",\n".join(self.events)
        return json.dumps(head)[:-1] + f', "traceEvents": [\n{inner}\n], ' + json.dumps(tail)[1:]

    def write(self, path: Path) -> Path:
        encoded = self.text().encode()
        path.write_bytes(gzip.compress(encoded) if path.suffix == ".gz" else encoded)
        return path


def _spaced(args: dict[str, Any]) -> dict[str, Any]:
    return {key.replace("_", " "): value for key, value in args.items()}
