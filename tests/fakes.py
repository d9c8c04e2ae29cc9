"""Doubles shared by tests: a collector that notes what is asked of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from npuprof.options import Options


class FakeCollector:
    """A front end that records the calls made to it, and fails where it is told to."""

    name = "fake"
    simulated = False
    stops_on_any_thread = False

    def __init__(self, *, fail: Mapping[str, BaseException] | None = None) -> None:
        self.calls: list[str] = []
        self.fail = dict(fail or {})

    def _called(self, call: str) -> None:
        self.calls.append(call)
        if error := self.fail.get(call.partition(" ")[0]):
            raise error

    def check(self, options: Options) -> None:
        self._called("check")

    def warmup(self, options: Options, directory: Path) -> None:
        self._called("warmup")

    def start(self, options: Options, directory: Path) -> None:
        self._called("start")

    def stop(self) -> None:
        self._called("stop")

    def drives(self, options: Options) -> bool:
        return "npu" in options.activities

    def records_stacks(self, options: Options) -> bool:
        return False

    def step(self, number: int | None) -> None:
        self._called(f"step {number}")

    def mark(self, message: str, domain: str = "", stream: int | None = None) -> None:
        self._called(f"mark {message}{f' of {domain}' * bool(domain)}{f' on {stream}' * (stream is not None)}")

    def range_start(self, message: str, domain: str = "") -> int:
        self._called(f"range_start {message}{f' of {domain}' * bool(domain)}")
        return len(self.calls)

    def range_stop(self, handle: int) -> None:
        self._called("range_stop")

    def versions(self) -> Mapping[str, str]:
        return {"fake": "1.0"}
