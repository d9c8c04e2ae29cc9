"""Cells in a shell of this process, profiled on the simulated NPU."""

from __future__ import annotations

import builtins
import shlex
from pathlib import Path
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import npuprof
from npuprof.notebook.magics import NpuprofMagics
from npuprof.profiles.profile import Profile


def output(folder: Path) -> str:
    """Return the option that has a cell record below a folder, whose name may have spaces."""
    return f"--output {shlex.quote(str(folder))}"


class Cells:
    """A shell with the magics, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        config = Config()
        config.HistoryManager.enabled = False
        self.shell = InteractiveShell(config=config)
        self.magics = NpuprofMagics(self.shell)
        self.magics.install()
        self.folder = folder
        self.builtins = set(vars(builtins))

    def run(self, code: str) -> Any:
        """Run a cell; an exception in it is raised."""
        result = self.shell.run_cell(code, store_history=True)
        result.raise_error()
        return result.result

    def profile(self, code: str, options: str = "") -> Profile:
        """Run a profiled cell on the simulator, and return its run."""
        self.run(f"%%npuprof --collector simulator --no-report {output(self.folder)} {options}\n{code}")
        return npuprof.last()
