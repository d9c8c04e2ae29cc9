"""The tool msprof as a process: its output read as it comes, every wait bounded, and nothing of it left running.

Source: collectors/FRONTENDS.md section 5.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from npuprof.errors import CollectorError

_MOST_OUTPUT = 1 << 20  # characters kept: the last ones tell what went wrong
_LAST_LINES = 8
_END_S = 10.0


class MsprofProcess:
    """One msprof that runs.

    Parameters
    ----------
    command
        The program and its arguments.
    echo
        Called with each piece of its output.
    takes_words
        Whether it is told what to do by words, as one that has attached to a process.
    """

    def __init__(
        self, command: Sequence[str], echo: Callable[[str], object] | None = None, *, takes_words: bool = False
    ) -> None:
        # What this process was started with is no business of the tool's own.
        environment = {name: value for name, value in os.environ.items() if name != "PROFILING_MODE"}
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the vendor's tool, with arguments of our own
                list(command),
                stdin=subprocess.PIPE if takes_words else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,  # an interrupt of the notebook is passed on in order, not sent to all
            )
        except OSError as error:
            raise CollectorError(
                f"{command[0]} cannot be run ({error.strerror or error}): check its permissions"
            ) from None
        self._echo = echo
        self._news = threading.Condition()
        self._output = ""
        self._dropped = 0  # characters that are no longer kept
        self._closed = False
        self._reader = threading.Thread(target=self._read, name="npuprof-msprof", daemon=True)
        self._reader.start()

    @property
    def output(self) -> str:
        """What it has written, the last megabyte of it."""
        with self._news:
            return self._output

    def _read(self) -> None:
        stream = self._process.stdout
        assert stream is not None, "it was opened with a pipe"  # noqa: S101 - narrows the type
        try:
            while piece := os.read(stream.fileno(), 1 << 16):
                text = piece.decode(errors="replace")
                with self._news:
                    kept = (self._output + text)[-_MOST_OUTPUT:]
                    self._dropped += len(self._output) + len(text) - len(kept)
                    self._output = kept
                    self._news.notify_all()
                if self._echo is not None:
                    self._echo(text)
        finally:
            with self._news:
                self._closed = True
                self._news.notify_all()

    def ask(self, word: str, answer: re.Pattern[str], timeout_s: float) -> re.Match[str]:
        """Write a word to it and wait for its answer.

        Raises
        ------
        CollectorError
            If it ends or says nothing of the kind in time; the message holds what it said.
        """
        with self._news:
            place = self._dropped + len(self._output)
        self._say(word)
        end = time.monotonic() + timeout_s
        with self._news:
            while True:
                if found := answer.search(self._output, max(0, place - self._dropped)):
                    return found
                left = end - time.monotonic()
                if self._closed or left <= 0:
                    break
                self._news.wait(left)
        if self._closed:
            raise CollectorError(f"msprof ended at `{word}` with status {self.wait(_END_S)}. {self.last_words()}")
        raise CollectorError(f"msprof did not answer `{word}` within {timeout_s:g} s. {self.last_words()}")

    def _say(self, word: str) -> None:
        stream = self._process.stdin
        if stream is not None:
            with suppress(OSError):  # that it has ended is seen by its output
                stream.write(f"{word}\n".encode())
                stream.flush()

    def quit(self, timeout_s: float) -> int | None:
        """Ask it to end, and wait; None when it had to be killed."""
        self._say("quit")
        return self.wait(timeout_s)

    def wait(self, timeout_s: float | None) -> int | None:
        """Wait for its end and give its exit status; None when it took too long and was killed.

        An interrupt is passed on to it and to what it runs, before it is raised.
        """
        try:
            status = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return None
        except BaseException:
            self.kill()
            raise
        self._finish()
        return status

    def kill(self) -> None:
        """End it and what it runs: asked first, then by force."""
        for number in (signal.SIGINT, signal.SIGKILL):
            with suppress(ProcessLookupError):  # the second is for what it ran, where it has ended itself
                os.killpg(self._process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_S)
        self._finish()

    def _finish(self) -> None:
        self._reader.join(_END_S)  # a program that it left behind may hold the pipe open for longer
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None and not self._reader.is_alive():
                with suppress(OSError):
                    stream.close()

    def last_words(self) -> str:
        """Return what it wrote last, with the warning that it deserves."""
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        if not lines:
            return "It said nothing"
        return "It said (its messages may name the wrong option): " + " | ".join(lines[-_LAST_LINES:])


def has_data(directory: Path) -> bool:
    """Return whether msprof has left raw data in a directory."""
    return any(directory.glob("PROF_*"))
