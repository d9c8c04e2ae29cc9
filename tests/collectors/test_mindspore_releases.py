"""Earlier releases of MindSpore: the older ``Profiler``, and a ``profile`` with fewer settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import npuprof
from npuprof.collectors.acl import SimulatorCollector
from npuprof.errors import NpuprofWarning, OptionsError
from npuprof.options import Options
from npuprof.simulator import npu
from tests.collectors.mindspore_double import OLDER, names_of
from tests.collectors.mindspore_double import MakeMindSpore as Make

# What the older Profiler is asked by each release, where it is not asked under the same name.
_OLDER_ASKED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("unlisted", {}, {"profiler_level": "Level1", "aicore_metrics": "PipeUtilization", "start_profile": False}),
    ("2.4", {"aic_metrics": "Memory", "level": 2}, {"profiler_level": "Level2", "aicore_metrics": "Memory"}),
    ("2.4", {"memory": True, "sys_interconnection": True}, {"profile_memory": True, "hbm_ddr": True, "pcie": True}),
    ("2.5", {"memory": True, "export_type": "db"}, {"profile_memory": True, "hbm_ddr": True, "export_type": ["Db"]}),
    ("2.5", {"level": "none"}, {"profiler_level": "LevelNone", "mstx": True, "aic_metrics": "AiCoreNone"}),
]


@pytest.mark.parametrize(("release", "options", "asked"), _OLDER_ASKED)
def test_the_older_profiler_is_asked_by_its_ownnames_of(
    make_mindspore: Make, tmp_path: Path, release: str, options: dict[str, Any], asked: dict[str, Any]
) -> None:
    mindspore, double = make_mindspore(release=release)
    mindspore.check(Options(**options))
    mindspore.start(Options(**options), tmp_path)
    mindspore.step(1)
    mindspore.stop()
    assert {name: names_of(double.given[name]) for name in asked} == asked
    assert double.given["output_path"] == str(tmp_path)
    assert double.coerced == []
    ended = ["analyse"] if release == "unlisted" else ["finalize", "clear"]
    assert double.calls == ["init", "start", "stop", *ended]


def test_an_earlier_profile_is_asked_by_the_names_that_it_has(make_mindspore: Make, tmp_path: Path) -> None:
    mindspore, double = make_mindspore(release="2.6")
    options = Options(memory=True, sys_interconnection=True)
    mindspore.check(options)
    mindspore.start(options, tmp_path)
    mindspore.stop()
    given = {name: double.given[name] for name in ("profile_memory", "hbm_ddr", "pcie")}
    assert given == {"profile_memory": True, "hbm_ddr": True, "pcie": True}
    assert double.coerced == []
    with pytest.raises(OptionsError, match="cannot collect sys_io"):
        mindspore.check(Options(sys_io=True))


@pytest.mark.parametrize("release", [*OLDER, "2.6"])
def test_older_release_refuses_missing_parameters(make_mindspore: Make, release: str) -> None:
    mindspore, _ = make_mindspore(release=release)
    with pytest.raises(OptionsError, match=r"cannot collect shapes.*upgrade MindSpore"):
        mindspore.check(Options(shapes=True))


def test_level_none_needs_the_markers_that_the_oldest_releases_lack(make_mindspore: Make) -> None:
    mindspore, _ = make_mindspore(release="2.4")
    with pytest.raises(OptionsError, match="cannot collect marks"):
        mindspore.check(Options(level="none"))


def test_older_profiler_directory_wins(make_mindspore: Make, tmp_path: Path) -> None:
    mindspore, double = make_mindspore(release="2.4")
    double.context._on_trace_ready_output_path = "own"
    mindspore.start(Options(), tmp_path)
    mindspore.stop()
    assert [path.name[-10:] for path in tmp_path.iterdir()] == ["_ascend_ms"]
    assert double.context._on_trace_ready_output_path == "own"


def test_markers_of_a_release_without_any_are_reported_once(make_mindspore: Make, tmp_path: Path) -> None:
    mindspore, _ = make_mindspore(release="2.4")
    mindspore.start(Options(), tmp_path)
    with pytest.warns(NpuprofWarning, match="has no markers"):
        mindspore.mark("epoch")
    assert mindspore.range_start("forward") == 0  # a second warning would be an error here
    mindspore.stop()


def test_markers_without_domains_are_reported_once(make_mindspore: Make, tmp_path: Path) -> None:
    mindspore, double = make_mindspore(release="2.5")
    mindspore.start(Options(), tmp_path)
    mindspore.mark("plain")
    with pytest.warns(NpuprofWarning, match="have no domains"):
        mindspore.mark("epoch", "train")
    mindspore.range_stop(mindspore.range_start("forward", "train"))  # a second warning would be an error here
    mindspore.stop()
    assert double.marks == [("plain", None), ("epoch", None)]


@pytest.mark.slow
def test_the_directory_of_the_oldest_releases_is_read(make_mindspore: Make, tmp_path: Path) -> None:
    make_mindspore(release="unlisted", npu=SimulatorCollector())
    with npuprof.profile(collector="mindspore", output=tmp_path) as prof:
        npu.asarray([1.0, 2.0]) + 1.0
    assert len(prof.result.kernels) == 1
