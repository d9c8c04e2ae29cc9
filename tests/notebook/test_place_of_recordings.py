"""The first report of a kernel says where recordings are kept, so that no folder surprises; no other report does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.notebook.kernel import Executed, Kernel

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

_ON_NPU = "from npuprof.simulator import npu\nx = npu.ones((8, 8))\nfor i in range(3):\n    y = x @ x"


def _places(executed: Executed) -> list[str]:
    """Return the lines that say where recordings are kept, as text and as HTML."""
    lines = [line for data in executed.displays for line in data["text/plain"].splitlines()]
    of_html = [data["text/html"].count("Recordings are kept in") for data in executed.displays]
    found = [line for line in lines if line.startswith("Recordings are kept in")]
    assert len(found) == sum(of_html)
    return found


@pytest.mark.parametrize("first", ["1 + 1", _ON_NPU, "1 / 0"], ids=["nothing recorded", "kernels", "an error"])
def test_only_the_first_report_says_it(tmp_path: Path, first: str) -> None:
    with Kernel(tmp_path) as kernel:
        kernel.run("%load_ext npuprof")
        (line,) = _places(kernel.run(f"%%npuprof\n{first}"))
        assert " npuprof-recordings/." in line
        assert [path.name for path in tmp_path.iterdir()] == ["npuprof-recordings"]
        for cell in ("%%npuprof\n2 + 2", f"%%npuprof\n{_ON_NPU}", "%npuprof last"):
            assert not _places(kernel.run(cell))


def test_it_moves_as_it_says(tmp_path: Path) -> None:
    with Kernel(tmp_path) as kernel:
        kernel.run("%load_ext npuprof\n%env ASCEND_WORK_PATH=moved")
        (line,) = _places(kernel.run("%%npuprof\n1 + 1"))
        assert " profiling_data/." in line
        kernel.run("%%npuprof --output 'my folder'  # with a blank\n1 + 1")
        assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("*")) == ["moved", "my folder"]
        assert len(list((tmp_path / "moved" / "profiling_data").iterdir())) == 1
