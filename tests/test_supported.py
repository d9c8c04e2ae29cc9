"""Versions of Python and processors that pages, packaging and CI name."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.test_wheel import SUPPORTED

_ROOT = Path(__file__).parents[1]
_VERSION = re.compile(r"\b3\.1\d\b")


@pytest.fixture(scope="module")
def workflow() -> Any:
    yaml: Any = pytest.importorskip("yaml")
    return yaml.safe_load((_ROOT / ".github/workflows/weekly.yml").read_text(encoding="utf-8"))


def test_the_classifiers_name_the_versions_that_the_page_says_were_run() -> None:
    text = (_ROOT / "pyproject.toml").read_text(encoding="utf-8")
    classified = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', text)
    (row,) = re.findall(
        r"^\| Python \|.*", (_ROOT / "notebooks/reference/support.md").read_text(encoding="utf-8"), re.M
    )
    run = re.search(r"the README's two commands with (.*?) on x86_64", row)
    assert run is not None
    assert classified == _VERSION.findall(run[1])
    assert set(classified) <= set(SUPPORTED)
    assert f'requires-python = ">={SUPPORTED[0]}"' in text


def test_a_public_host_runs_every_supported_version_on_both_processors(workflow: Any) -> None:
    (job,) = workflow["jobs"].values()
    assert job["strategy"]["matrix"] == {"machine": ["ubuntu-24.04", "ubuntu-24.04-arm"], "python": list(SUPPORTED)}
    assert workflow["permissions"] == {"contents": "read"}
    assert [step["run"] for step in job["steps"] if "run" in step] == [
        f".ci/readme {number} | bash -euo pipefail" for number in (1, 2)
    ]


def test_ci_runs_the_commands_of_the_readme() -> None:
    given = re.findall(r"^```sh\n(.*?)^```$", (_ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)
    printed = [
        subprocess.run([_ROOT / ".ci/readme", str(number)], capture_output=True, text=True, check=True).stdout
        for number in (1, 2)
    ]
    assert printed == given
