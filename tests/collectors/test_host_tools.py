"""Programs that the native collector needs for samples of the host, looked for before it starts."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from npuprof import tensorflow
from npuprof.collectors import capabilities
from npuprof.collectors.registry import make
from npuprof.errors import OptionsError
from npuprof.options import COLLECTORS, Options, has_value
from npuprof.session.session import Session
from tests.collectors.test_acl import RecordingProf

_missing = capabilities.missing_host_tools  # before any test stands something in for it
_SCRIPT = "msprof_data_collection.sh"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Return a function that installs programs on a machine that has none of them."""
    monkeypatch.setattr(capabilities, "missing_host_tools", _missing)
    monkeypatch.setattr(capabilities, "_WHERE", str(tmp_path))
    monkeypatch.setattr(capabilities, "_SCRIPT", tmp_path / _SCRIPT)

    def install(*programs: str) -> None:
        for program in programs:
            (tmp_path / program).write_text("#!/bin/sh\n")
            (tmp_path / program).chmod(0o700)

    return install


@pytest.mark.parametrize("collector", [name for name in COLLECTORS if name not in ("auto", "simulator", "kineto")])
@pytest.mark.parametrize(
    ("kind", "has", "told"),
    [
        ("disk", (), rf"disk with iotop, and this machine lacks iotop, sudo, .*{_SCRIPT}"),
        ("disk", ("sudo", "iotop"), rf"lacks /.*{_SCRIPT}: install.*configuring user permissions.*leave disk out"),
        ("osrt", ("sudo", "perf", _SCRIPT), "osrt with perf and ltrace, and this machine lacks ltrace: install"),
        ("numa", ("iotop", "ltrace", _SCRIPT), "numa with perf, and this machine lacks perf, sudo:"),
    ],
)
def test_missing_program_is_named_before_start(
    installed: Any, collector: str, kind: str, has: tuple[str, ...], told: str
) -> None:
    if not has_value(collector, "host_sys", kind):
        told = f"{collector} has no {kind} among host_sys"
    installed(*has)
    with pytest.raises(OptionsError, match=told):
        capabilities.check(collector, Options(host_sys=(kind,), collector=collector))
    installed("sudo", "iotop", "perf", "ltrace", _SCRIPT)
    if has_value(collector, "host_sys", kind):
        capabilities.check(collector, Options(host_sys=(kind,), collector=collector))


@pytest.mark.parametrize("kind", ["cpu", "mem", "network"])
def test_what_the_collector_reads_itself_needs_no_program(installed: Any, kind: str) -> None:
    capabilities.check("acl", Options(host_sys=(kind,)))


def test_the_simulated_npu_needs_none(installed: Any) -> None:
    make("simulator").check(Options(host_sys=("disk", "osrt", "numa"), collector="simulator"))


def test_a_session_is_refused_before_anything_native_is_called(
    installed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    acl: Any = ModuleType("acl")
    acl.prof = RecordingProf({}, 0)
    acl.rt = SimpleNamespace(get_device_count=lambda: (1, 0))
    monkeypatch.setitem(sys.modules, "acl", acl)
    with pytest.raises(OptionsError, match="lacks iotop"):
        Session(Options(host_sys=("disk",), output=tmp_path / "out", collector="acl")).start()
    assert acl.prof.calls == []
    assert not (tmp_path / "out").exists()


def test_a_whole_session_of_tensorflow_is_refused_too(installed: Any, tmp_path: Path) -> None:
    with pytest.raises(OptionsError, match="lacks iotop"):
        tensorflow.environment(Options(host_sys=("disk",), output=tmp_path))
