"""Raw data or its result: raw data where it is complete."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from npuprof.sources.choice import raw_is_complete
from npuprof.sources.detect import detect
from tests.sources.msprof.results import result


def _raw(root: Path, *, chip: str = "5", host: bytes = b"x", device: bytes = b"x") -> Path:
    for side, content in (("host", host), ("device_0", device)):
        (root / side / "data").mkdir(parents=True)
        (root / side / "data" / "some.data.slice_0").write_bytes(content)
    (root / "device_0" / "info.json.0").write_text(json.dumps({"platform_version": chip}))
    return root


@pytest.mark.parametrize(
    ("lacking", "complete"),
    [({}, True), ({"chip": "4"}, False), ({"host": b""}, False), ({"device": b""}, False)],
)
def test_raw_data_needs_both_sides_of_a_chip_that_is_decoded(
    tmp_path: Path, lacking: dict[str, str | bytes], complete: bool
) -> None:
    root = result(_raw(tmp_path / "PROF_1", **lacking))  # type: ignore[arg-type]  # each has its own type
    assert raw_is_complete(root) is complete
    assert detect(root).found[0].name == ("raw" if complete else "msprof")
    assert [detect(root, preferred).found[0].name for preferred in ("raw", "parsed")] == ["raw", "msprof"]


def test_a_result_alone_is_not_raw(tmp_path: Path) -> None:
    assert not raw_is_complete(result(tmp_path / "PROF_1"))
    assert not raw_is_complete(tmp_path / "absent")
