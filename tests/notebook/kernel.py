"""A real ipykernel, driven as a front end drives it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from jupyter_client.manager import KernelManager

from tests import pace

_WAIT_S = 60
_SHUTDOWN_S = 10  # then the kernel is killed
_QUIET = frozenset({"status", "execute_input"})

Content = dict[str, Any]


@dataclass
class Executed:
    """What came back for one execute request: the reply, and the messages in their order."""

    reply: Content
    messages: list[tuple[str, Content]] = field(default_factory=list)

    @property
    def status(self) -> str:
        return str(self.reply["status"])

    @property
    def kinds(self) -> list[str]:
        """The kinds of messages, without those that every cell has."""
        return [kind for kind, _ in self.messages]

    @property
    def value(self) -> str | None:
        """The text of ``Out[n]``; None when there is none."""
        found = self.contents("execute_result")
        return found[0]["data"]["text/plain"] if found else None

    @property
    def displays(self) -> list[Content]:
        """The data of display messages."""
        return [content["data"] for content in self.contents("display_data")]

    @property
    def has_report(self) -> bool:
        """Whether the report of a run is among what was displayed."""
        return any('class="npuprof-report ' in data.get("text/html", "") for data in self.displays)

    def contents(self, kind: str) -> list[Content]:
        return [content for found, content in self.messages if found == kind]

    def stream(self, name: str = "stdout") -> str:
        return "".join(content["text"] for content in self.contents("stream") if content["name"] == name)

    def traceback(self) -> str:
        return "\n".join("\n".join(content["traceback"]) for content in self.contents("error"))


class Kernel:
    """A kernel in a directory of its own; a context manager."""

    def __init__(self, directory: Path) -> None:
        self.manager = KernelManager(kernel_name="python3", shutdown_wait_time=pace.seconds(_SHUTDOWN_S))
        # Not into the history of whoever runs the tests.
        arguments = ["--HistoryManager.hist_file=:memory:"]
        self.manager.start_kernel(cwd=str(directory), extra_arguments=arguments)
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=pace.seconds(_WAIT_S))

    def __enter__(self) -> Kernel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.shut_down()

    def shut_down(self) -> None:
        """Ask the kernel to end, as `Kernel > Shut Down` does, and wait until it has."""
        self.client.stop_channels()
        self.manager.shutdown_kernel()
        self.client.context.destroy(linger=0)  # jupyter_client leaves it to garbage collection, which warns

    def wait_until_nothing_is_aborted(self) -> None:
        """Wait for the end of the moment in which ipykernel 6 aborts what comes after a cell that failed."""
        deadline = time.monotonic() + pace.seconds(_WAIT_S)
        while self.run("").status == "aborted" and time.monotonic() < deadline:
            time.sleep(0.05)

    def run(self, code: str, *, on_stream: Callable[[], None] | None = None, **how: Any) -> Executed:
        """Execute a cell and wait for all that comes of it.

        Parameters
        ----------
        code
            The cell.
        on_stream
            Called once, when the cell has printed something: it is running then.
        **how
            Further arguments of ``KernelClient.execute``.
        """
        # A failed cell must not take those with it that the next lines of a test send: ipykernel 6 aborts
        # whatever comes within a moment.
        return self.collect(self.client.execute(code, **{"stop_on_error": False, **how}), on_stream)

    def collect(self, request: str, on_stream: Callable[[], None] | None = None) -> Executed:
        """Wait for all that comes of a request sent before."""
        executed = Executed({})
        while True:
            message = self.client.get_iopub_msg(timeout=pace.seconds(_WAIT_S))
            if message["parent_header"].get("msg_id") != request:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "status" and content["execution_state"] == "idle":
                break
            if kind not in _QUIET:
                executed.messages.append((kind, content))
            if kind == "stream" and on_stream is not None:
                on_stream()
                on_stream = None
        executed.reply = self.reply(request)
        return executed

    def reply(self, request: str) -> Content:
        """Wait for the reply to a request."""
        deadline = time.monotonic() + pace.seconds(_WAIT_S)
        while time.monotonic() < deadline:
            message = self.client.get_shell_msg(timeout=pace.seconds(_WAIT_S))
            if message["parent_header"].get("msg_id") == request:
                content: Content = message["content"]
                return content
        raise TimeoutError(f"no reply to {request}")

    def interrupt(self) -> None:
        """Interrupt what is running, as `Kernel > Interrupt` does."""
        self.manager.interrupt_kernel()

    def evaluate(self, expression: str) -> str:
        """Return the text of an expression's value, without leaving a trace in the kernel."""
        reply = self.reply(self.client.execute("", silent=True, user_expressions={"it": expression}))
        found = reply["user_expressions"]["it"]
        if found["status"] != "ok":
            raise ValueError(f"{expression}: {found['ename']}: {found['evalue']}")
        return str(found["data"]["text/plain"])
