"""The metadata in a result of torch_npu or MindSpore: ``profiler_info*.json`` and ``profiler_metadata.json``.

Source: sources/RESULTS.md sections 1.1 and 1.2.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from npuprof.files.small_files import convert, decode
from npuprof.options import FRAMEWORK_NAMES
from npuprof.options.metric_names import NATIVE
from npuprof.sources.files.gzip_file import read_head
from npuprof.sources.framework import reader_of
from npuprof.sources.result_folder.layout import ResultFiles
from npuprof.tables.info import Info
from npuprof.tables.notes import Notes

_MAX_BYTES = 64 << 20
_LEVELS: dict[str, str | int] = {"Level_none": "none", "LevelNone": "none", "Level0": 0, "Level1": 1, "Level2": 2}
_MINDSPORE_KEYS = ("profiler_parameters", "ms_profiler_info", "ms_version")  # writes the same tree of files
_OF_WORKER = re.compile(r"(.+)_(\d+)_\d{17}_ascend_ms")
"""The name of a folder of MindSpore's: host, process and time, unless the worker was given a name."""
_RANK_IN_NAME = re.compile(r"profiler_info_(\d+)\.json")


class _Fields:
    """The fields of a JSON object; a field of the wrong type is noted and left out."""

    def __init__(self, plain: dict[str, Any], source: str, notes: Notes) -> None:
        self.plain = plain
        self._source, self._notes = source, notes

    def take(self, key: str, kind: Any, default: Any = None) -> Any:
        """Return a field's value, or the default if it is missing or of another type."""
        value = self.plain.pop(key, None)
        if value is None:
            return default
        try:
            return convert(value, kind)
        except ValueError as error:
            self._notes.warning(self._source, f"{key} is damaged ({error}), and is left out")
            return default

    def renamed(self) -> dict[str, Any]:
        """Return the remaining fields; the vendor's options are renamed to npuprof's names."""
        names = {key: key.lstrip("_") for key in self.plain}
        ours = {key: FRAMEWORK_NAMES.get(name, name) for key, name in names.items()}
        return {ours[key]: self.plain[key] if ours[key] == names[key] else self.take(key, bool) for key in names}

    def part(self, key: str) -> _Fields:
        """Return the fields of a nested object."""
        return _Fields(self.take(key, dict[str, Any], {}), self._source, self._notes)


def describe(layout: ResultFiles, notes: Notes) -> Info:
    """Gather the facts of both files; a missing or damaged file is noted, and its facts stay empty."""
    info = Info(name=layout.root.name, collector="torch_npu", source="torch_npu text result", recording=layout.root)
    profiler_info, metadata = (
        _Fields(load(path, notes), path.name if path else "", notes) for path in (layout.profiler_info, layout.metadata)
    )
    if any(key in profiler_info.plain for key in _MINDSPORE_KEYS):
        info.collector, info.source = "mindspore", "mindspore text result"
    elif (reader := reader_of(layout.framework)) is not None:  # a run that was not analysed may lack the file
        info.collector, info.source = reader.COLLECTOR, f"{reader.COLLECTOR} text result"
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
    if info.collector == "mindspore" and (host := _host_of_name(layout.root.name, info.rank)):
        info.environment["hostname"] = host
    info.metadata = metadata.plain
    info.simulated = metadata.take("npuprof_simulated", bool, default=False)  # written by npuprof.simulator.jobs
    return info


def _host_of_name(name: str, rank: int | None) -> str:
    """Return the host that the name of MindSpore's folder begins with; empty if it has a rank in place of a process."""
    match = _OF_WORKER.fullmatch(name)
    return match[1] if match and int(match[2]) != rank else ""


def _options(config: _Fields) -> dict[str, Any]:
    """Return the vendor's configuration under npuprof's option names; unknown options keep their names."""
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
    """Return MindSpore's parameters under npuprof's option names; unknown parameters keep their names."""
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
    """Return start and end of the collection: the end is epoch time, the start is derived from monotonic durations."""
    stopped = end.take("collectionTimeEnd", int)
    begun, ended = start.take("start_monotonic", int), end.take("MonotonicTimeEnd", int)
    if stopped is None or begun is None or ended is None or ended < begun:
        return None, stopped
    return stopped - (ended - begun), stopped


def _rank(path: Path | None, profiler_info: _Fields, metadata: _Fields) -> int | None:
    """Return the global rank: from the file's name, its content (number or text), or the metadata; -1 is no rank."""
    named = _RANK_IN_NAME.fullmatch(path.name) if path else None
    arguments = metadata.plain.get("distributed_args")
    of_job = arguments.get("rank") if isinstance(arguments, dict) else None
    for value in (named[1] if named else None, profiler_info.take("rank_id", int | str), of_job):
        if isinstance(value, int | str) and re.fullmatch(r"[0-9]{1,9}", str(value)):
            return int(value)
    return None


def load(path: Path | None, notes: Notes) -> dict[str, Any]:
    """Read a JSON object; empty if the file is missing or, with a note, if it is damaged."""
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
