"""A profiler that the program starts meanwhile: ours has ended by then, and what is missing is said."""

from __future__ import annotations

import threading
from types import SimpleNamespace

from npuprof.collectors.other_profilers import OtherProfilers
from npuprof.errors import CollectorError

_MISSING = "the code started a profiler of torch itself, which has one at a time: what came after is missing"


class _Vendor:
    """A profiler of a vendor's, which says when it begins."""

    def __init__(self, said: list[str]) -> None:
        self.said = said

    def begin(self, name: str) -> str:
        self.said.append(name)
        return name


def test_run_ends_before_the_next_and_reports_losses() -> None:
    said: list[str] = []
    plain = _Vendor(said).begin
    home = SimpleNamespace(begin=plain)
    others = OtherProfilers(lambda: said.append("ended"), "torch")
    others.watch((home, "begin"), (home, "of_a_later_version"), records=True)
    assert home.begin(name="theirs") == "theirs"
    assert said == ["ended", "theirs"]
    assert others.unwatch() == _MISSING
    assert (others.unwatch(), home.begin) == ("", plain)


def test_warm_up_leaves_nothing_missing() -> None:
    def fail() -> None:
        raise CollectorError("no room")

    home = SimpleNamespace(begin=list)
    for records, expected in ((False, f"{_MISSING} (no room)"), (True, f"{_MISSING} (no room)")):
        others = OtherProfilers(fail, "torch")
        others.watch((home, "begin"), records=records)
        home.begin()
        assert others.unwatch() == expected
    others = OtherProfilers(lambda: None, "torch")
    others.watch((home, "begin"), records=False)
    home.begin()
    assert others.unwatch() == ""


def test_own_calls_end_nothing() -> None:
    said: list[str] = []
    ours = _Vendor(said)
    others = OtherProfilers(lambda: said.append("ended"), "torch")
    others.watch((_Vendor, "begin"), records=True, recorder=ours)
    ours.begin("ours")
    thread = threading.Thread(target=lambda: _Vendor(said).begin("theirs"))
    thread.start()
    thread.join()
    assert said == ["ours", "theirs"]
    assert "on another thread, which ends this one's" in others.unwatch()
    _Vendor(said).begin("after")
    assert said[-1] == "after"
