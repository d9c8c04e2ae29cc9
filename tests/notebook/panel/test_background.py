"""Work outside the caller's thread."""

from __future__ import annotations

import threading
import time
from contextvars import ContextVar

from npuprof.notebook.panel.background import Ticker, run_in_background
from tests import pace

_TIMEOUT_S = 20
_word: ContextVar[str] = ContextVar("word", default="none")


def test_background_work_keeps_the_context_and_not_the_thread() -> None:
    seen: list[object] = []
    done = threading.Event()

    def work() -> None:
        seen.extend([_word.get(), threading.current_thread() is threading.main_thread()])
        done.set()

    token = _word.set("mine")
    try:
        run_in_background(work)
    finally:
        _word.reset(token)
    assert done.wait(pace.seconds(_TIMEOUT_S))
    assert seen == ["mine", False]


def test_ticker_sleeps_until_woken() -> None:
    calls: list[int] = []
    lively = threading.Event()
    called = threading.Semaphore(0)

    def act() -> None:
        calls.append(1)
        if len(calls) >= 4:
            lively.clear()
        called.release()

    ticker = Ticker(act, lively.is_set, interval_s=0.001)
    ticker.start()
    time.sleep(0.05)
    assert calls == []
    lively.set()
    ticker.wake()
    for _ in range(4):
        assert called.acquire(timeout=pace.seconds(_TIMEOUT_S))
    ticker.end()
    ticker._thread.join(pace.seconds(_TIMEOUT_S))
    assert not ticker._thread.is_alive()
