"""The metadata in a result of torch_npu or MindSpore: ``profiler_info*.json`` and ``profiler_metadata.json``.

Source: sources/RESULTS.md sections 1.1 and 1.2.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from npuprof.info import Info
from npuprof.notes import Notes
from npuprof.options import FRAMEWORK_NAMES
from npuprof.options.metric_names import NATIVE
from npuprof.small_files import convert, decode
from npuprof.sources.files.gzip_file import read_head
from npuprof.sources.result_folder.layout import Layout

_MAX_BYTES = 64 << 20
_LEVELS: dict[str, str | int] = {"Level_none": "none", "LevelNone": "none", "Level0": 0, "Level1": 1, "Level2": 2}
_MINDSPORE_KEYS = ("profiler_parameters", "ms_profiler_info", "ms_version")  # it writes the same tree of files
_RANK_IN_NAME = re.compile(r"profiler_info_(\d+)\.json")


class _Fields:
    """The fields of a JSON object, each of which may hold anything; one of another type is reported and left out.

    Parameters
    ----------
    plain
        The object; a field that was taken is no longer in it.
    source, notes
        Its origin, and the receiver of reports.
    """

    def __init__(self, plain: dict[str, Any], source: str, notes: Notes) -> None:
        self.plain = plain
        self._source, self._notes = source, notes

    def take(self, key: str, kind: Any, default: Any = None) -> Any:
        """Return a field's value, or the default where there is none, or one of another type."""
        value = self.plain.pop(key, None)
        if value is None:
            return default
        try:
            return convert(value, kind)
        except ValueError as error:
            self._notes.warning(self._source, f"{key} is damaged ({error}), and is left out")
            return default

    def renamed(self) -> dict[str, Any]:
        """Return what is left, the vendor's switches by our names."""
        names = {key: key.lstrip("_") for key in self.plain}
        ours = {key: FRAMEWORK_NAMES.get(name, name) for key, name in names.items()}
        return {ours[key]: self.plain[key] if ours[key] == names[key] else self.take(key, bool) for key in names}

    def part(self, key: str) -> _Fields:
        """Return the fields of an object within this one."""
        return _Fields(self.take(key, dict[str, Any], {}), self._source, self._notes)


def describe(layout: Layout, notes: Notes) -> Info:
    """Gather the facts of the two files; a missing or damaged one is noted and leaves its part empty."""
    info = Info(name=layout.root.name, collector="torch_npu", source="torch_npu text result", recording=layout.root)
    profiler_info, metadata = (
        _Fields(load(path, notes), path.name if path else "", notes) for path in (layout.profiler_info, layout.metadata)
    )
    if any(key in profiler_info.plain for key in _MINDSPORE_KEYS):
        info.collector, info.source = "mindspore", "mindspore text result"
    versions = {
        name: profiler_info.take(key, str, "")
        for name, key in (("torch_npu", "torch_npu_version"), ("mindspore", "ms_version"), ("cann", "cann_version"))
    }
    info.versions = {name: version for name, version in versions.items() if version}
    parameters, config = profiler_info.part("profiler_parameters"), profiler_info.part("config")
    info.options = _mindspore_options(parameters) if parameters.plain else _options(config)
    if jit_level := profiler_info.take("jit_level", str, ""):
        info.options["jit_level"] = jit_level
    info.started_ns, info.stopped_ns = _interval(profiler_info.part("start_info"), profiler_info.part("end_info"))
    info.rank = _rank(layout.profiler_info, profiler_info, metadata)
    variables = metadata.take("ENV_VARIABLES", dict[str, Any], {})
    info.environment = {key: str(value) for key, value in variables.items() if value not in ("", None)}
    info.metadata = metadata.plain
    info.simulated = metadata.take("npuprof_simulated", bool, default=False)  # of npuprof.simulator.jobs
    return info


def _options(config: _Fields) -> dict[str, Any]:
    """Return the vendor's configuration in our words where we have one; the rest under its own name."""
    if not config.plain:
        return {}
    common, special = config.part("common_config"), config.part("experimental_config")
    options: dict[str, Any] = {
        "activities": [name.rpartition(".")[2].lower() for name in common.take("activities", list[str], [])]
    }
    level, metrics = special.take("_profiler_level", str), special.take("_aic_metrics", str)
    options["level"] = _LEVELS.get(level, level)
    options["aic_metrics"] = NATIVE.get(metrics, metrics)
    options["marks"] = special.take("_msprof_tx", bool, default=False) | special.take("_mstx", bool, default=False)
    options["host_sys"] = special.take("_host_sys", list[str], [])
    return options | common.renamed() | special.renamed() | options


def _mindspore_options(parameters: _Fields) -> dict[str, Any]:
    """Return MindSpore's parameters in our words where we have one; the rest under its own name."""
    level, metrics = parameters.take("profiler_level", str), parameters.take("aic_metrics", str, "None")
    options: dict[str, Any] = {
        "activities": [name.lower() for name in parameters.take("activities", list[str], [])],
        "level": _LEVELS.get(level, level),
        "aic_metrics": "none" if metrics == "None" else metrics,
    }
    if "host_sys" in parameters.plain:
        options["host_sys"] = parameters.take("host_sys", list[str])
    return options | parameters.renamed()


def _interval(start: _Fields, end: _Fields) -> tuple[int | None, int | None]:
    """Return when collection began and ended: the end is epoch time, the begin so much monotonic time before it."""
    stopped = end.take("collectionTimeEnd", int)
    begun, ended = start.take("start_monotonic", int), end.take("MonotonicTimeEnd", int)
    if stopped is None or begun is None or ended is None or ended < begun:
        return None, stopped
    return stopped - (ended - begun), stopped


def _rank(path: Path | None, profiler_info: _Fields, metadata: _Fields) -> int | None:
    """Return the global rank: in the file's name, in it as a number or as text, or in the metadata; -1 is none."""
    named = _RANK_IN_NAME.fullmatch(path.name) if path else None
    arguments = metadata.plain.get("distributed_args")
    of_job = arguments.get("rank") if isinstance(arguments, dict) else None
    for value in (named[1] if named else None, profiler_info.take("rank_id", int | str), of_job):
        if isinstance(value, int | str) and re.fullmatch(r"[0-9]{1,9}", str(value)):
            return int(value)
    return None


def load(path: Path | None, notes: Notes) -> dict[str, Any]:
    """Read a JSON object; empty where there is no such file, and, with a note, where it is damaged."""
    if path is None:
        return {}
    try:
        plain = decode(read_head(path, _MAX_BYTES))
    except (OSError, ValueError) as error:
        notes.warning(path.name, f"cannot be read: {error}")
        return {}
    if not isinstance(plain, dict):
        notes.warning(path.name, "holds no JSON object")
        return {}
    return plain
