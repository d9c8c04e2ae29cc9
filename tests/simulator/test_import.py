"""The package is quick to import: what only recordings or arrays need comes later."""

from __future__ import annotations

import subprocess
import sys


def test_neither_numpy_nor_pandas_is_imported() -> None:
    code = "import sys, npuprof.simulator as s; s.current(); print(sorted({'numpy', 'pandas'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
