"""What importing npuprof costs: nothing that is not needed yet."""

from __future__ import annotations

import subprocess
import sys

import pytest

import npuprof

_HEAVY = ("pandas", "plotly", "ipywidgets", "pyarrow", "msgspec", "pyinstrument", "torch", "numpy")


@pytest.mark.slow
@pytest.mark.parametrize("statement", ["import npuprof", "import npuprof; npuprof.Options(); npuprof.Session"])
def test_importing_loads_nothing_heavy(statement: str) -> None:
    program = f"{statement}\nimport sys\nprint([name for name in {_HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_loading_imports_no_processes() -> None:
    program = "import sys, npuprof.loading\nprint([name for name in ('loky', 'distributed') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", sorted(set(npuprof.__all__)))
def test_every_public_name_is_bound(name: str) -> None:
    assert getattr(npuprof, name) is getattr(npuprof, name)
    assert name in dir(npuprof)


@pytest.mark.slow
def test_importing_a_submodule_hides_no_public_name() -> None:
    program = (
        "import npuprof, npuprof.profiles, npuprof.session.session, npuprof.markers, npuprof.options\n"
        "assert all(callable(getattr(npuprof, name)) for name in npuprof.__all__)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'profiler'"):
        _ = npuprof.profiler


def test_the_version_is_the_installed_one() -> None:
    assert npuprof.__version__.count(".") == 2
