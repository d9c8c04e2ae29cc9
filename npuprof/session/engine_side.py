"""What an engine of ipyparallel does for :mod:`npuprof.session.engines`, which calls these functions there."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from npuprof.options import Options
from npuprof.session.session import Session

_session: Session | None = None
_private: Path | None = None


def start(options: Mapping[str, Any], folder: str, token: str, rank: int, size: int) -> dict[str, Any]:
    """Start a session, in the folder of the job if this engine sees it, else in a private one."""
    global _session, _private
    if _session is not None:
        stop()
        forget()
    shared = _reads(folder, token)
    _private = None if shared else Path(tempfile.mkdtemp(prefix="npuprof-engine-"))
    session = Session(
        Options.from_dict({**options, "output": folder if shared else str(_private), "name": f"engine{rank}"}),
        title="the session of this engine",
    )
    session.process = {"rank": rank, "world_size": size}
    session.start()
    _session = session
    return {
        "path": session.recording.directory.name,
        "shared": shared,
        "rank": rank,
        "pid": os.getpid(),
        "host": platform.node(),
    }


def _reads(folder: str, token: str) -> bool:
    try:
        status = Path(folder).stat()
        content = (Path(folder) / "engines").read_text(encoding="ascii")
    except (OSError, ValueError):
        return False
    return content == token and status.st_uid == os.geteuid()


def stop() -> dict[str, Any]:
    """Stop the session; return its problems, and the files of its recording with their sizes."""
    session = _session
    if session is None:
        raise RuntimeError("no session runs on this engine: it was restarted")
    recording = session.stop()
    root = recording.directory
    files = [
        (path.relative_to(root).as_posix(), path.stat().st_size)
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.is_symlink()
    ]
    return {"files": files, "problems": list(recording.problems)}


def piece(name: str, begin: int, length: int) -> bytes:
    """Return a part of a file of the recording."""
    if _session is None:
        raise RuntimeError("no session ran on this engine")
    with (_session.recording.directory / name).open("rb") as file:
        file.seek(begin)
        return file.read(length)


def forget() -> None:
    """Forget the session, and delete a private recording, which was sent."""
    global _session, _private
    if _private is not None:
        shutil.rmtree(_private, ignore_errors=True)
    _session = _private = None
