"""One event of a timeline."""

from __future__ import annotations

import msgspec


class Event(msgspec.Struct, gc=False):
    """One event as it stands in the file; `args` are its undecoded bytes."""

    ph: str
    name: str = ""
    pid: int | str | float | None = None
    tid: int | str | float | None = None
    ts: str | int | float | None = None
    dur: int | float | str | None = None
    cat: str | None = None
    id: int | str | float | None = None
    args: msgspec.Raw = msgspec.Raw(b"{}")
