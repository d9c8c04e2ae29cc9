"""What pytest prints with ``-q``: progress in few lines, and skipped tests by reason, one line each."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest

_MOST_REASONS = 15
_LINES = 8  # of progress, where it cannot be shown in place
_REDRAWN_S = 0.2


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Show progress in few lines where ``-q`` is given, in the process that reports."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and config.option.verbose < 0 and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Progress(reporter), "npuprof-progress")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print each reason of skipped tests in one line, with the number of tests."""
    # Several processes collect the same files, and each reports a file that is skipped as a whole.
    skipped = {report.nodeid: _reason(report) for report in terminalreporter.stats.get("skipped", [])}
    reasons = Counter(skipped.values()).most_common()
    for reason, number in reasons[:_MOST_REASONS]:
        terminalreporter.write_line(f"skipped {number:>5,}: {reason}")
    if len(reasons) > _MOST_REASONS:
        number = sum(number for _, number in reasons[_MOST_REASONS:])
        terminalreporter.write_line(f"skipped {number:>5,}: for other reasons (-rs prints all)")


def _reason(report: Any) -> str:
    """Return why a test was skipped, in one line."""
    told = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return " ".join(told.removeprefix("Skipped: ").split())


class _Progress:
    """Progress: in place on a terminal, elsewhere a line now and then. A test that fails is named at once."""

    def __init__(self, reporter: Any) -> None:
        self._reporter = reporter
        self._done, self._ended = 0, False
        self._shown = 0.0  # when progress was last drawn on a terminal, else up to which part of all tests
        self._began = time.monotonic()

    @pytest.hookimpl
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Keep the session, which knows how many tests there are."""
        self._session = session

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Leave what is printed now to pytest."""
        self._ended = True

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(self, report: Any) -> Generator[None, Any, Any]:
        """Print no letter, and the names of tests that fail."""
        status = yield
        if self._ended:  # the summary uses the word
            return status
        category = status[0]
        if category in ("failed", "error"):
            self._clear()
            self._reporter.write_line(f"{category.upper()} {report.nodeid}", red=True)
        return category, "", ""

    @pytest.hookimpl
    def pytest_runtest_logfinish(self) -> None:
        """Count the test, and show progress where it is time."""
        self._done += 1
        share = self._done / max(self._session.testscollected, self._done)
        now = time.monotonic()
        minutes, seconds = divmod(int(now - self._began), 60)
        line = f"{share:4.0%}, {self._done:,} of {self._session.testscollected:,} tests, {minutes}:{seconds:02}"
        if not self._reporter.isatty:
            if share * _LINES >= self._shown + 1:
                self._shown = int(share * _LINES)
                self._reporter.write_line(line)
                self._reporter.flush()  # a pipe would keep the lines to the end
        elif now >= self._shown + _REDRAWN_S or share == 1:
            self._shown = now
            self._reporter.rewrite(line, erase=True)
            self._reporter.currentfspath = -2  # as pytest does where a line is not ended yet

    def _clear(self) -> None:
        if self._reporter.isatty:
            self._reporter.rewrite("", erase=True)
            self._reporter.rewrite("")
            self._reporter.currentfspath = None
