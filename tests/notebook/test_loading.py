"""What `%load_ext npuprof` costs and touches, in a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests import pace

_SCRIPT = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
names = set(shell.user_ns)
shell.run_line_magic("load_ext", "npuprof")
assert set(shell.user_ns) == names, set(shell.user_ns) - names
heavy = {"numpy", "pandas", "plotly", "ipywidgets", "pyarrow", "msgspec", "pyinstrument", "torch"}
print(*sorted(heavy & set(sys.modules)), end="")
"""


@pytest.mark.slow
def test_loading_prints_nothing_adds_no_names_and_imports_nothing_heavy() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=True, timeout=pace.seconds(60)
    )
    assert done.stdout == ""
