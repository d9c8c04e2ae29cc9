"""Streams of a recording cut into slices anew, as a longer run would have them."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

SLICE = re.compile(r"(?P<stream>.+)\.slice_(?P<number>\d+)")


def take_streams(folder: Path) -> dict[str, bytes]:
    """Take the slices of a folder away, and give the bytes of each stream."""
    parts: dict[str, list[tuple[int, bytes]]] = defaultdict(list)
    for path in folder.iterdir():
        if match := SLICE.fullmatch(path.name):
            parts[match["stream"]].append((int(match["number"]), path.read_bytes()))
            path.unlink()
            path.with_name(f"{path.name}.done").unlink(missing_ok=True)
    return {name: b"".join(content for _, content in sorted(slices)) for name, slices in parts.items()}


def write_slices(folder: Path, name: str, content: bytes, size: int, *, marks: bool = True) -> list[Path]:
    """Write a stream in slices of so many bytes, each with its ``.done`` mark."""
    paths = []
    for number, start in enumerate(range(0, len(content), size)):
        path = folder / f"{name}.slice_{number}"
        path.write_bytes(content[start : start + size])
        if marks:
            path.with_name(f"{path.name}.done").write_text(f"filesize:{path.stat().st_size}\n")
        paths.append(path)
    return paths


def reslice(path: Path, stream: str, size: int, *, marks: bool = True) -> list[Path]:
    """Cut one stream of a recording anew."""
    folder = next(file for file in path.rglob(f"{stream}.slice_0")).parent
    streams = take_streams(folder)
    for name, content in streams.items():
        if name != stream:
            write_slices(folder, name, content, max(len(content), 1))
    return write_slices(folder, stream, streams[stream], size, marks=marks)
