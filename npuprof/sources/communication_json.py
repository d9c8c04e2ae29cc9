"""Read ``communication.json`` and ``communication_matrix.json`` as tables of their own.

Source: formats/results.md section 4.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd

from npuprof.errors import SourceError

TOTAL = "Total Op Info"
_MAX_BYTES = 512 << 20


def read_communication(path: Path) -> dict[str, pd.DataFrame]:
    """Read times and bandwidths of communication operators.

    Returns
    -------
    ``communication``: step, kind (p2p or collective), name, group and the times as they came;
    ``communication_bandwidth``: the same and the numbers of each link type. The file's own totals are left out:
    they would be counted twice. Of the link types, SDMA is the sum of those on the node.

    Raises
    ------
    SourceError
        If the file cannot be read or has another shape.
    """
    times, bandwidths = [], []
    for where, operator in _operators(path):
        if where["name"] == TOTAL:
            continue
        times.append({**where, **_mapping(operator.get("Communication Time Info"))})
        for link, numbers in _mapping(operator.get("Communication Bandwidth Info")).items():
            flat = {key: value for key, value in _mapping(numbers).items() if not isinstance(value, dict)}
            bandwidths.append({**where, "link": link, **flat})
    return {"communication": pd.DataFrame(times), "communication_bandwidth": pd.DataFrame(bandwidths)}


def read_communication_matrix(path: Path) -> pd.DataFrame:
    """Read what went between each two ranks: step, kind, name, group, src_rank, dst_rank and the numbers as they came.

    Raises
    ------
    SourceError
        If the file cannot be read or has another shape.
    """
    rows = []
    for where, pairs in _operators(path):
        for pair, numbers in pairs.items():
            source, _, target = str(pair).partition("-")
            rows.append({**where, "src_rank": source, "dst_rank": target, **_mapping(numbers)})
    frame: pd.DataFrame = pd.DataFrame(rows)
    return frame


def _operators(path: Path) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Give each operator with its step, kind, name and group; msprof's own files have no steps and kinds."""
    plain = _mapping(_load(path))
    if any("@" in key or key == TOTAL for key in plain):
        plain = {"": {"": plain}}
    for step, kinds in plain.items():
        for kind, operators in _mapping(kinds).items():
            for key, operator in _mapping(operators).items():
                name, _, group = key.partition("@")
                yield (
                    {"step": step.removeprefix("step"), "kind": kind, "name": name, "group": group},
                    _mapping(operator),
                )


def _load(path: Path) -> Any:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise SourceError(
                f"{path} is larger than {_MAX_BYTES >> 20} MiB, too large for a summary; is it another file?"
            )
        return msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror or error}; check the file and its rights") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SourceError(f"{path} is damaged: {error}; export the result again") from error


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
