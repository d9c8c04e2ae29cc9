"""What torch_npu prints: its own lines are taken, those of others go on."""

from __future__ import annotations

import sys

import pytest

from npuprof.collectors.torch_npu_adapter import vendor_messages

_STAMP = "[2026-11-21 13:22:54] [{}] [18503] profiler.py: "


def test_the_vendors_lines_are_taken_and_all_others_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with vendor_messages() as messages:
        print("loss 0.5")
        print(_STAMP.format("WARNING") + "Invalid parameter l2_cache", flush=True)
        print(_STAMP.format("INFO") + "all gc events")
        print(_STAMP.format("ERROR") + "Call start failed. Exception: no device")
        print("[ERROR] 2026-11-21-13:22:54 (PID:18503, Device:0, RankID:-1) ERR04005 PROF internal error")
        print("[3, 4] is a list")
        print("without an end", end="")
    assert capsys.readouterr().out == "loss 0.5\n[3, 4] is a list\nwithout an end"
    assert messages.warnings == ["Invalid parameter l2_cache"]
    assert messages.errors == ["Call start failed. Exception: no device"]


def test_what_is_printed_in_pieces_is_printed_whole(capsys: pytest.CaptureFixture[str]) -> None:
    with vendor_messages() as messages:
        sys.stdout.write("[")
        sys.stdout.write("1]\n")
        sys.stdout.write(_STAMP.format("WARNING"))
        sys.stdout.write("told later\n")
    assert capsys.readouterr().out == "[1]\n"
    assert messages.warnings == ["told later"]


def test_the_stream_is_put_back_whatever_happens() -> None:
    before = sys.stdout
    with pytest.raises(KeyError), vendor_messages():
        raise KeyError
    assert sys.stdout is before
