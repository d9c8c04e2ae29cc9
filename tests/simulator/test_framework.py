"""The files of a simulated framework, byte by byte as collectors/FRONTENDS.md section 2 has them."""

from __future__ import annotations

import os
import struct
from pathlib import Path

from npuprof.simulator.framework import Block, FrameworkFiles, OperatorCall

PID = os.getpid()


def test_a_call_has_its_fixed_part_and_its_texts(tmp_path: Path) -> None:
    files = FrameworkFiles(tmp_path)
    files.call(OperatorCall("aten::mm", 7, 1000, 2500, 12, 3, "2,3;3,4", "float32;float32"))
    files.flush()
    fixed = struct.pack("<qqqQQQQBB", 1000, 2500, 12, PID, 7, 7, 3, 0, 0)
    texts = b""
    for kind, text in ((2, b"aten::mm"), (3, b"float32;float32"), (4, b"2,3;3,4")):
        texts += struct.pack("<HI", kind, len(text)) + text
    expected = struct.pack("<HI", 1, 58 + len(texts)) + fixed + texts
    assert (tmp_path / "FRAMEWORK" / "torch.op_range").read_bytes() == expected


def test_a_block_has_its_totals_and_a_release_a_negative_size(tmp_path: Path) -> None:
    files = FrameworkFiles(tmp_path)
    files.block(Block("allocated", 7, 1000, 4096, 512, 512, 2048, 1))
    files.block(Block("released", 7, 1500, 4096, 512, 0, 2048, 1))
    files.flush()
    content = (tmp_path / "FRAMEWORK" / "torch.memory_usage").read_bytes()
    records = [content[at : at + 83] for at in (0, 83)]
    assert len(content) == 2 * 83
    for record, stamp, size, held, kind in zip(records, (1000, 1500), (512, -512), (512, 0), (0, 1), strict=True):
        assert struct.unpack_from("<HI", record) == (3, 77)
        assert struct.unpack_from("<7q2b3B2Q", record, 6) == (
            *(4096, stamp, size, held, 2048, held, 0),
            *(20, 1, 0, kind, 0),
            *(7, PID),
        )


def test_odd_texts_are_written(tmp_path: Path) -> None:
    files = FrameworkFiles(tmp_path)
    files.call(OperatorCall("x\ud800", 7, 0, 1))
    files.flush()
    content = (tmp_path / "FRAMEWORK" / "torch.op_range").read_bytes()
    assert content[6 + 58 :] == struct.pack("<HI", 2, 2) + b"x?"


def test_nothing_is_made_for_nothing(tmp_path: Path) -> None:
    FrameworkFiles(tmp_path).flush()
    assert not list(tmp_path.iterdir())


def test_partial_writes_lie_together_and_are_private(tmp_path: Path) -> None:
    files = FrameworkFiles(tmp_path)
    for number in range(3):
        files.call(OperatorCall("a" * 600_000, 7, number, number + 1))
    files.flush()
    path = tmp_path / "FRAMEWORK" / "torch.op_range"
    assert path.stat().st_size == 3 * (6 + 58 + 6 + (1 << 16))
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
