"""Whatever JSON the file holds, there is a request or a refusal in words, and never anything else."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuprof.dynamic import keys
from npuprof.dynamic.requests import Request, read_file, understand
from npuprof.errors import NpuprofError
from tests.budget import examples
from tests.field_damage import WRONG, damaged, places

_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["Level1", "AiCoreNone", "CPU", "text", "cpu", "acl"])
)
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
_OWN = st.dictionaries(st.sampled_from(["level", "output", "collector", "devices", "name"]), _VALUES, max_size=3)
_SPECIAL = st.dictionaries(st.sampled_from(sorted(keys.TORCH_NPU_SPECIAL)), _VALUES, max_size=4)


def _file(table: dict[str, keys.Key]) -> st.SearchStrategy[dict[str, Any]]:
    plain = st.dictionaries(st.sampled_from(sorted(table)), _VALUES, max_size=4)
    nested = st.fixed_dictionaries({}, optional={"experimental_config": _SPECIAL, "npuprof": _OWN})
    return st.builds(lambda one, other: {**one, **{k: v for k, v in other.items() if k in table}}, plain, nested)


@pytest.mark.slow
@given(_file(dict(keys.TORCH_NPU)) | _file(dict(keys.MINDSPORE)))
@settings(max_examples=examples(150))
def test_any_object_is_a_request_or_a_refusal(plain: dict[str, Any]) -> None:
    with suppress(NpuprofError):
        assert isinstance(understand(json.loads(json.dumps(plain))), Request)


@pytest.mark.slow
@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
@settings(max_examples=examples(100))
def test_any_bytes_are_an_object_or_a_refusal(tmp_path_factory: Any, content: bytes) -> None:
    path = Path(tmp_path_factory.getbasetemp()) / "profiler_config.json"
    path.write_bytes(content)
    with suppress(NpuprofError):
        assert isinstance(read_file(path)[0], dict)


@pytest.mark.slow
@pytest.mark.parametrize("dialect", keys.DIALECTS)
def test_a_damaged_field_is_reported_or_refused(tmp_path: Path, dialect: str) -> None:
    path = tmp_path / "profiler_config.json"
    own = {"npuprof": {"level": 1, "devices": [0], "name": "a run"}} if "npuprof" in keys.DIALECTS[dialect] else {}
    plain = keys.template(dialect) | own
    wrong = []
    for place in places(plain):
        for words, value in WRONG.items():
            path.write_text(damaged(plain, place, value))
            try:
                told: list[str] = []
                assert isinstance(understand(read_file(path)[0], warn=told.append), Request)
            except NpuprofError as error:
                if not str(error).strip():
                    wrong.append((place, words, "nothing is told"))
            except Exception as error:  # noqa: BLE001 - each of them is a find
                wrong.append((place, words, repr(error)))
    assert not wrong
