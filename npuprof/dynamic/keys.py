"""The keys of ``profiler_config.json``, with their defaults, allowed values and options, for torch_npu and MindSpore.

Source: collectors/FRONTENDS.md sections 1 and 2; the vendors' pages on dynamic profiling.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from npuprof.errors import OptionsError
from npuprof.options import AIC_METRICS, HOST_SYS, values
from npuprof.options.metric_names import NATIVE, NUMBERED

_MAX_STEP = 1 << 53  # what JSON's numbers hold exactly
_MAX_RANKS = 1 << 20

Taker = Callable[[str, Any], Any]


@dataclass(frozen=True)
class Key:
    """A key of the file.

    Attributes
    ----------
    default
        Its value in the template, and in a file without the key; None if templates leave it out.
    take
        Converts the value for npuprof, or raises :class:`npuprof.errors.OptionsError`.
    option
        The field of :class:`npuprof.options.Options` that it sets; empty for other keys.
    """

    default: Any
    take: Taker
    option: str = ""


def _whole(least: int, most: int = _MAX_STEP) -> Taker:
    def take(name: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise OptionsError(f"{name} must be a whole number of at least {least}, not {value!r}")
        return value

    return take


def _chosen(meanings: Mapping[Any, Any]) -> Taker:
    """Return a converter of words or numbers to their meanings."""

    def take(name: str, value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, (str, int, type(None))) or value not in meanings:
            raise OptionsError(f"{name} must be one of {values.listed(meanings)}, not {value!r}")
        return meanings[value]

    return take


def _any_of(meanings: Mapping[str, str]) -> Taker:
    def take(name: str, value: Any) -> tuple[str, ...]:
        given = [value] if isinstance(value, str) else value
        if not isinstance(given, list) or any(not isinstance(word, str) or word not in meanings for word in given):
            raise OptionsError(f"{name} must be a list of any of {values.listed(meanings)}, not {value!r}")
        return tuple(meanings[word] for word in given)

    return take


def _words(name: str, value: Any) -> tuple[str, ...]:
    return values.words(name, value if value is not None else ())


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise OptionsError(f"{name} must be text, not {value!r}")
    return value or "./"


def _ranks(name: str, value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or len(value) > _MAX_RANKS:
        raise OptionsError(f"{name} must be a list of ranks, such as [0, 8], not {value!r}")
    return tuple(_whole(0)(name, rank) for rank in value)


def _object(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise OptionsError(f"{name} must be a JSON object, not {value!r}")
    return value


_ACTIVITIES = {"CPU": "cpu", "NPU": "npu", "GPU": "gpu"}
_EXPORT_TYPES = {"text": "text", "db": "db", "Text": "text", "Db": "db"}
_HOST_SYS = {kind: kind for kind in HOST_SYS}
_LEVELS = {"Level0": 0, "Level1": 1, "Level2": 2}
_METRICS = {name: name for name in AIC_METRICS}
# MindSpore before 2.5; None leaves the choice to the options, in which levels 1 and 2 count PipeUtilization.
_NUMBERED_METRICS: Mapping[Any, str | None] = {-1: None, **NUMBERED}
_MINDSPORE_METRICS: Mapping[Any, str | None] = {"AiCoreNone": None, "None": None, **_METRICS, **_NUMBERED_METRICS}

# Keys of either file. The key npuprof holds options by name, which override the other keys.
_EITHER: Mapping[str, Key] = {
    "is_rank": Key(False, values.flag),
    "rank_list": Key([], _ranks),
    "metadata": Key({}, _object),
    "npuprof": Key({}, _object),
}
_IN_BOTH: Mapping[str, Key] = {
    "activities": Key(["CPU", "NPU"], _any_of(_ACTIVITIES), "activities"),
    "analyse": Key(False, values.flag),
    "record_shapes": Key(False, values.flag, "shapes"),
    "profile_memory": Key(False, values.flag, "memory"),
    "with_stack": Key(False, values.flag, "stacks"),
}

TORCH_NPU_SPECIAL: Mapping[str, Key] = {
    "profiler_level": Key("Level0", _chosen({**_LEVELS, "Level_none": "none"}), "level"),
    # torch_npu writes its own words; some versions write the native library's.
    "aic_metrics": Key("AiCoreNone", _chosen({"AiCoreNone": "none", **_METRICS, **NATIVE}), "aic_metrics"),
    "l2_cache": Key(False, values.flag, "l2"),
    "op_attr": Key(False, values.flag, "op_attr"),
    "gc_detect_threshold": Key(None, values.at_least_zero, "gc_detect_threshold"),
    "data_simplification": Key(True, values.flag, "data_simplification"),
    "record_op_args": Key(False, values.flag, "record_op_args"),
    "export_type": Key(["text"], _any_of(_EXPORT_TYPES), "export_type"),
    "msprof_tx": Key(False, values.flag),
    "mstx": Key(False, values.flag),
    "host_sys": Key([], _any_of(_HOST_SYS), "host_sys"),
    "mstx_domain_include": Key([], _words, "mstx_domain_include"),
    "mstx_domain_exclude": Key([], _words, "mstx_domain_exclude"),
    "sys_io": Key(False, values.flag, "sys_io"),
    "sys_interconnection": Key(False, values.flag, "sys_interconnection"),
}

TORCH_NPU: Mapping[str, Key] = {
    **_IN_BOTH,
    "prof_dir": Key("./", _text),
    "async_mode": Key(False, values.flag),
    "with_flops": Key(False, values.flag, "flops"),
    "with_modules": Key(False, values.flag, "modules"),
    "active": Key(1, _whole(1)),
    "warmup": Key(0, _whole(0)),
    "start_step": Key(0, _whole(-1)),
    **_EITHER,
    "is_valid": Key(None, values.flag),
    "experimental_config": Key({name: key.default for name, key in TORCH_NPU_SPECIAL.items()}, _object),
}

MINDSPORE: Mapping[str, Key] = {
    "start_step": Key(-1, _whole(-1)),
    "stop_step": Key(-1, _whole(-1)),
    "aic_metrics": Key("AiCoreNone", _chosen(_MINDSPORE_METRICS), "aic_metrics"),
    "profiler_level": Key("Level0", _chosen({**_LEVELS, "LevelNone": "none", -1: 0, 0: 0, 1: 1, 2: 2}), "level"),
    "analyse_mode": Key(-1, _chosen({-1: "", 0: "sync", 1: "async"})),
    **_IN_BOTH,
    "export_type": Key(["text"], _any_of(_EXPORT_TYPES), "export_type"),
    "mstx": Key(False, values.flag),
    "parallel_strategy": Key(False, values.flag, "parallel_strategy"),
    "data_simplification": Key(True, values.flag, "data_simplification"),
    "l2_cache": Key(False, values.flag, "l2"),
    "prof_path": Key("./", _text),
    "mstx_domain_include": Key([], _words, "mstx_domain_include"),
    "mstx_domain_exclude": Key([], _words, "mstx_domain_exclude"),
    "host_sys": Key([], _any_of(_HOST_SYS), "host_sys"),
    "sys_io": Key(False, values.flag, "sys_io"),
    "sys_interconnection": Key(False, values.flag, "sys_interconnection"),
    **_EITHER,
    # Of MindSpore before 2.5.
    "aicore_metrics": Key(None, _chosen(_MINDSPORE_METRICS), "aic_metrics"),
    "profile_framework": Key(None, _chosen({-1: "", 0: "all", 1: "time", "all": "all", "time": "time", None: ""})),
    "profile_communication": Key(None, values.flag),
}

DIALECTS: Mapping[str, Mapping[str, Key]] = {"torch_npu": TORCH_NPU, "mindspore": MINDSPORE}


def template(dialect: str) -> dict[str, Any]:
    """Return a framework's file with all keys at their defaults, which profiles nothing."""
    return {name: key.default for name, key in DIALECTS[dialect].items() if key.default is not None}
