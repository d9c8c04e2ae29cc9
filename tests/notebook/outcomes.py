"""What the user of a kernel sees of an executed cell, without what differs between two runs of any cell."""

from __future__ import annotations

import re
from typing import Any

from tests.notebook.kernel import Content, Executed, Kernel

_DIFFERS = (
    (r"\x1b\[[\d;]*m", ""),
    (r"0x[0-9a-f]{4,}|(?<=object at )[0-9a-f]{8,}", "0x"),
    (r"(?<![0-9a-f])[0-9a-f]{32}\b|\b[0-9a-f-]{36}\b|(?<=msg_id: )\S+", "id"),
    (r"(?:/[\w.+-]+)+/", "/"),  # folders
    (r"(ipykernel_|_)\d{4,}\b", r"\1n"),  # names of files of cells
    (
        r"\b\d+(?=\.py\b)|(?<=Task-)\d+|(?<=pid=)\d+|(?<=parent=)\d+|(?<=count=)\d+|(?<=stopped )\d+|(?<=Thread-)\d+",
        "n",
    ),
    (r"In\s?\[\d+\]", "In[n]"),
    (r"-{10,}|(?<=\w) {3,}(?=\S)", " "),
    (r"[\d.]+(e[+-]\d+)? ?(ns|[μµ]s|us|ms|s)\b", "a time"),
    (r"(# )?%%npuprof.*", "# first line"),
)
"""Patterns of what is another in each run, and what stands for it."""

_NAMES = """{
    name: (type(value).__name__, repr(value)[:200]) for name, value in get_ipython().user_ns.items()
    if name not in get_ipython().user_ns_hidden and not name.startswith("_")
}"""

Outcome = dict[str, Any]


def steady(text: str) -> str:
    """Return a text with what differs between runs replaced."""
    for pattern, replacement in _DIFFERS:
        text = re.sub(pattern, replacement, text)
    return text


def is_npuprofs(kind: str, content: Content) -> bool:
    """Return whether a message is npuprof's own: a report, or the widget that listens for keys."""
    data = content.get("data", {})
    if kind == "comm_open":
        state = data.get("state", {})
        return "npuprof" in str(state.get("_anywidget_id")) or "npuprof" in str(state.get("_dom_classes"))
    if kind == "display_data":
        return "npuprof-" in data.get("text/html", "")
    return kind == "stream" and content["text"].startswith("npuprof: ")


def messages(executed: Executed, comms: set[str]) -> list[tuple[str, str]]:
    """Return the messages of a cell as kinds and steady texts; what streams say between two others is one text each.

    `comms` has the comms that the user's cells opened, and gets those that this one opens: the others are npuprof's.
    """
    found: list[tuple[str, str]] = []
    streams: dict[str, str] = {}
    for kind, content in [*executed.messages, ("end", {})]:
        if is_npuprofs(kind, content) or (kind in ("comm_msg", "comm_close") and content["comm_id"] not in comms):
            continue
        if kind == "comm_open":
            if content["data"].get("state", {}).get("_model_name") == "LayoutModel":
                continue  # npuprof's widget has one too, which looks like any other
            comms.add(content["comm_id"])
        if kind == "stream":
            streams[content["name"]] = streams.get(content["name"], "") + content["text"]
            continue
        found += sorted(streams.items())
        streams = {}
        found.append((kind, _shown(kind, content)))
    return [(kind, steady(text)) for kind, text in found[:-1]]


def outcome(executed: Executed, comms: set[str] | None = None) -> Outcome:
    """Return the status, the messages and the payload of a cell; `comms` as :func:`messages` takes it."""
    payload = [
        (each["source"], steady(str({key: each[key] for key in each if key != "source"})))
        for each in executed.reply["payload"]
    ]
    shown = messages(executed, set() if comms is None else comms)
    return {"status": executed.status, "messages": shown, "payload": payload}


def namespace(kernel: Kernel) -> str:
    """Return the user's names with the types and texts of their values."""
    return steady(kernel.evaluate(_NAMES))


def _shown(kind: str, content: Content) -> str:
    if kind == "error":
        return "\n".join([content["ename"], content["evalue"], *content["traceback"]])
    data = content.get("data", content)
    if kind.startswith("comm_"):
        state = data.get("state", {})
        data = {"method": data.get("method")} | {key: state[key] for key in state if key not in ("layout", "style")}
    return "\n".join(f"{key}: {value}" for key, value in data.items())
