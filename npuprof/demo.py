"""The demo: the quickstart notebook, executed in a real kernel on the simulated NPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from npuprof.errors import NpuprofError
from npuprof.files import atomic
from npuprof.loading import load
from npuprof.options import default_output
from npuprof.profiles.profile import Profile
from npuprof.recordings.recording import FILE_NAME

_NOTEBOOK = "quickstart.ipynb"
_TIMEOUT_S = 300


def run_demo(output: Path) -> tuple[Profile, Path]:
    """Execute the quickstart notebook in `output` and write the report of its first run, which has faults.

    Parameters
    ----------
    output
        The directory of the executed notebook, the recordings and the page; created if missing.
    """
    output.mkdir(mode=0o700, parents=True, exist_ok=True)
    recordings = output / default_output()
    before = set(recordings.glob(f"*/{FILE_NAME}"))
    _execute(notebook_path(), output)
    new = set(recordings.glob(f"*/{FILE_NAME}")) - before
    if not new:
        raise NpuprofError(
            f"the demo notebook left no recording in {output}: run `npuprof doctor` and look at {_NOTEBOOK}"
        )
    profile = min((load(path.parent) for path in new), key=lambda run: run.info.started_ns or 0)
    return profile, profile.to_html(output / "report.html").absolute()


def notebook_path() -> Path:
    """Return the quickstart notebook of an installed package or a checkout."""
    package = Path(__file__).parent
    for candidate in (package / "_demo" / _NOTEBOOK, package.parent / "notebooks" / _NOTEBOOK):
        if candidate.is_file():
            return candidate
    raise NpuprofError(f"{_NOTEBOOK} is missing from the installation at {package}: install npuprof again")


def _execute(source: Path, output: Path) -> None:
    try:
        import nbformat
        from nbclient import NotebookClient
        from nbclient.exceptions import CellExecutionError
    except ImportError as error:
        raise NpuprofError(f"{error.name} is needed to execute a notebook: pip install 'npuprof[lab]'") from error
    notebook: Any = nbformat.read(source, as_version=4)
    client = NotebookClient(
        notebook, timeout=_TIMEOUT_S, kernel_name="python3", resources={"metadata": {"path": str(output)}}
    )
    try:
        client.execute()
    except CellExecutionError as error:
        raise NpuprofError(f"a cell of the demo notebook failed: {error}") from error
    finally:
        atomic.write_text(output / _NOTEBOOK, nbformat.writes(notebook))
