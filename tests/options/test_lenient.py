"""Options of a vendor's own file: what is refused is left out and told, and what was typed for npuprof is not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from npuprof.collectors import capabilities
from npuprof.errors import OptionsError
from npuprof.options import Options, lenient


@pytest.mark.parametrize(
    ("plain", "collector", "left", "names"),
    [
        ({"l2": True}, "acl", {"l2": True}, []),
        ({"modules": True, "l2": True, "flops": True}, "acl", {"l2": True}, ["modules", "flops"]),
        ({"level": 2}, "kineto", {"level": 1, "aic_metrics": "none"}, ["level", "level"]),
        ({"activities": "cpu", "l2": True, "sys_io": True}, "acl", {"activities": ("cpu",)}, ["l2", "sys_io"]),
        ({"level": "none", "marks": False, "l2": True}, "acl", {"level": 0, "l2": True, "marks": False}, ["level"]),
        (
            {"mstx_domain_include": "a", "mstx_domain_exclude": "b"},
            "msprof",
            {"mstx_domain_include": ("a",), "mstx_domain_exclude": ()},
            ["mstx_domain_exclude"],
        ),
    ],
)
def test_lacking_parts_are_left_out_and_reported(
    plain: Mapping[str, Any], collector: str, left: Mapping[str, Any], names: list[str]
) -> None:
    told: list[str] = []
    given = {"collector": collector, "activities": "auto", **plain}
    options = lenient.build(given, told.append, lambda options: capabilities.check(collector, options))
    assert {name: getattr(options, name) for name in left} == left
    assert [line.partition(" left out: ")[0] for line in told] == names


def test_what_was_typed_for_npuprof_is_refused() -> None:
    def check(options: Options) -> None:
        capabilities.check("acl", options)

    with pytest.raises(OptionsError, match="acl has no modules"):
        lenient.build({"modules": True}, print, check, typed=("modules",))


def test_what_leaving_out_does_not_mend_is_refused() -> None:
    with pytest.raises(OptionsError, match="level must be one of"):
        lenient.build({"level": 7}, print)


def test_a_host_sample_whose_program_is_missing_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(capabilities, "_WHERE", str(tmp_path))
    told: list[str] = []
    options = lenient.build(
        {"host_sys": "cpu,disk,mem,osrt", "activities": "auto"},
        told.append,
        lambda asked: capabilities.check("acl", asked),
    )
    assert options.host_sys == ("cpu", "mem")
    assert [line.partition(":")[0] for line in told] == ["a part of host_sys left out"] * 2
