"""What importing npuprof costs: nothing that is not needed yet."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pandas
import pytest

import npuprof
from tests import pace

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


@pytest.mark.slow
def test_drawing_imports_no_readers() -> None:
    drawing = ("timeline.figure", "timeline.svg", "flame.figure", "figures.memory", "exports.explorer", "exports.html")
    views = ("profiles.profile", "notebook.explorer.timeline", "notebook.explorer.tabs")
    program = (
        f"import sys, importlib\nfor name in {(*drawing, *views)!r}: importlib.import_module('npuprof.' + name)\n"
        "import npuprof.sources, pkgutil\n"
        "readers = [found.name for found in pkgutil.iter_modules(npuprof.sources.__path__) if found.ispkg]\n"
        "print([name for name in readers if f'npuprof.sources.{name}' in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert set(ast.literal_eval(done.stdout)) <= {"columns", "files"}  # what readers and drawing share


@pytest.mark.parametrize("name", sorted(set(npuprof.__all__)))
def test_every_public_name_is_bound(name: str) -> None:
    assert getattr(npuprof, name) is getattr(npuprof, name)
    assert name in dir(npuprof)


@pytest.mark.slow
def test_importing_a_submodule_hides_no_public_name() -> None:
    program = (
        "import npuprof, npuprof.profiles.profile, npuprof.session.session, npuprof.markers, npuprof.options\n"
        "assert all(callable(getattr(npuprof, name)) for name in npuprof.__all__)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="profiler"):
        _ = npuprof.profiler  # type: ignore[attr-defined]


def test_the_version_is_the_installed_one() -> None:
    assert npuprof.__version__.count(".") == 2


@pytest.mark.slow
def test_uninstalled_checkout_records_and_says_so(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    for entry in Path(pandas.__file__).parents[1].iterdir():
        if "npuprof" not in entry.name and entry.suffix != ".pth":
            (site / entry.name).symlink_to(entry)
    code = (
        "import npuprof; print(npuprof.__version__)\n"
        "with npuprof.profile(output=sys.argv[1], collector='simulator'): sum(range(1000))\n"
        "print(npuprof.load(sys.argv[1]).info.versions['npuprof'])\n"
    )
    path = [str(Path(npuprof.__file__).parents[1]), str(site)]
    told = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {path!r}\n{code}", str(tmp_path / "run")],
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        check=False,
        timeout=pace.seconds(60),
    )
    assert told.stdout.split() == ["0+checkout"] * 2, told.stderr
