"""What the words after the magics mean."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.error import UsageError
from IPython.core.magic_arguments import MagicArgumentParser

from npuprof.notebook.arguments import (
    Arguments,
    interpret,
    parse,
    parse_load,
    parse_run,
    typed_options,
    without_comment,
)
from npuprof.notebook.magics import NpuprofMagics
from npuprof.options import Options

PARSER: MagicArgumentParser = NpuprofMagics.npuprof_cell.parser


def read(line: str) -> Arguments:
    return interpret(parse(PARSER, line))


def test_nothing_given_is_the_default() -> None:
    assert read("") == Arguments(Options(), report=True, run_anyway=False)


def test_every_option_has_an_argument_and_each_is_understood() -> None:
    line = (
        "--level 2 --aic-metrics Memory --activities npu,cpu --memory --stacks --shapes --l2 --marks "
        "--host-sys mem,cpu --output 'my runs' --name \"third try\" --collector simulator "
        "--modules --flops --gc-detect-threshold 1.5 --record-op-args --op-attr --mstx-domain-include a,b "
        "--llc-profiling read --sys-io --sys-interconnection --dvpp --memory-freq 1 --io-freq 2 "
        "--interconnection-freq 3 --dvpp-freq 4 --host-sys-usage cpu --host-sys-usage-freq 5 --hccl --aicpu "
        "--runtime-api --ge-api l1 --training-trace --fp-point f --bp-point b --data-process --parallel-strategy "
        "--no-sync-enable --storage-limit 500 --devices 0,3 --no-data-simplification --export-type db,text "
        "--delay 6 --duration 7"
    )
    assert read(line).options == Options(
        level=2,
        aic_metrics="Memory",
        activities=("cpu", "npu"),
        memory=True,
        stacks=True,
        shapes=True,
        l2=True,
        marks=True,
        host_sys=("cpu", "mem"),
        output=Path("my runs"),
        name="third try",
        collector="simulator",
        modules=True,
        flops=True,
        gc_detect_threshold=1.5,
        record_op_args=True,
        op_attr=True,
        mstx_domain_include=("a", "b"),
        llc_profiling="read",
        sys_io=True,
        sys_interconnection=True,
        dvpp=True,
        memory_freq=1,
        io_freq=2,
        interconnection_freq=3,
        dvpp_freq=4,
        host_sys_usage=("cpu",),
        host_sys_usage_freq=5,
        hccl=True,
        aicpu=True,
        runtime_api=True,
        ge_api="l1",
        training_trace=True,
        fp_point="f",
        bp_point="b",
        data_process=True,
        parallel_strategy=True,
        sync_enable=False,
        storage_limit=500,
        devices=(0, 3),
        data_simplification=False,
        export_type=("text", "db"),
        delay=6,
        duration=7,
    )
    assert not read("--no-marks").options.marks
    assert read("--mstx-domain-exclude c").options.mstx_domain_exclude == ("c",)
    documented = {action.dest for action in PARSER._actions} - {"report", "if_unavailable", "overhead", "saved_bytes"}
    assert documented == set(Options().to_dict())


@pytest.mark.parametrize("line", ["--help", "-h", "--bogus", "1"])
def test_unknown_word_is_refused_with_options(line: str) -> None:
    with pytest.raises(UsageError, match=r"--level.*%%npuprof\? explains them"):
        read(line)


def test_what_is_not_an_option_of_the_run() -> None:
    arguments = read("--if-unavailable run --no-report --marks")
    assert arguments == Arguments(Options(), report=False, run_anyway=True)
    assert read("--saved-bytes 0").saved_bytes == 0
    with pytest.raises(UsageError, match="--saved-bytes must be at least 0, not -1"):
        read("--saved-bytes -1")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("# why", ""),
        ("--level 1  # why", "--level 1"),
        ("--level 1 # don't \"ask", "--level 1"),
        ("--level 1 #", "--level 1"),
        ("--name a#b", "--name a#b"),
        ("--name 'a # b' # c", "--name 'a # b'"),
        ('--name "a \\" # b" # c', '--name "a \\" # b"'),
        ("--name a\\'b # c", "--name a\\'b"),
        ("--name 'open # c", "--name 'open"),
        ("", ""),
    ],
)
def test_a_comment_ends_the_arguments(line: str, expected: str) -> None:
    assert without_comment(line) == expected
    if "open" not in line:
        assert read(line) == read(expected)


def test_comments_go_with_every_command() -> None:
    assert parse_load("'my results' --steps 3  # why")[0] == "my results"
    assert parse_run("--level 2 train.py '#5'  # why").program == ("train.py", "#5")
    assert typed_options("--level 2  # why") == {"level": "2"}


@pytest.mark.slow
@given(st.text(max_size=60))
def test_any_line_is_options_or_a_usage_error(line: str) -> None:
    with suppress(UsageError):
        assert isinstance(read(line).options, Options)
