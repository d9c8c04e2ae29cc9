"""The keys of ``profiler_config.json``, with their defaults, allowed values and options, for torch_npu and MindSpore.

Source: collectors/FRONTENDS.md sections 1 and 2; the vendors' pages on dynamic profiling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import GenericAlias
from typing import Annotated, Any, Literal

from msgspec import Meta

from npuprof.errors import OptionsError
from npuprof.files.small_files import convert
from npuprof.options import AIC_METRICS, HOST_SYS, values
from npuprof.options.metric_names import NATIVE, NUMBERED

_MAX_STEP = 1 << 53  # largest integer that JSON numbers hold exactly
_MAX_RANKS = 1 << 20

Taker = Callable[[str, Any], Any]


def _unchanged(_name: str, value: Any) -> Any:
    return value


@dataclass(frozen=True)
class ValueType:
    """The type of a value in the file, and its conversion."""

    type: Any  # the type that it is converted to
    words: str  # the type in messages: `a whole number of at least 1`
    # Converts the name of a key and a value of the type to npuprof's value, or raises an OptionsError.
    take: Taker = _unchanged


@dataclass(frozen=True)
class Key:
    """A key of the file."""

    default: Any  # its value in the template, and in a file without the key; None if templates leave it out
    kind: ValueType  # the type of its value
    option: str = ""  # the field of `Options` that it sets; empty for other keys

    def take(self, name: str, value: Any) -> Any:
        """Convert a value in the file to npuprof's value."""
        try:
            typed = convert(value, self.kind.type)
        except ValueError:
            raise OptionsError(f"{name} must be {self.kind.words}, not {value!r}") from None
        return self.kind.take(name, typed)


def _whole(least: int) -> ValueType:
    return ValueType(Annotated[int, Meta(ge=least, le=_MAX_STEP)], f"a whole number of at least {least}")


def _common_type(allowed: Iterable[Any]) -> Any:
    """Return the common type of these values."""
    return Literal.__getitem__(tuple(allowed))


def _mapping_kind(meanings: Mapping[Any, Any]) -> ValueType:
    """Return the kind of words or numbers that map to `meanings`."""
    return ValueType(_common_type(meanings), f"one of {values.listed(meanings)}", lambda _, value: meanings[value])


def _any_of(meanings: Mapping[str, str]) -> ValueType:
    def take(_name: str, value: str | list[str]) -> tuple[str, ...]:
        return tuple(meanings[word] for word in ([value] if isinstance(value, str) else value))

    word = _common_type(meanings)
    return ValueType(word | GenericAlias(list, (word,)), f"a list of any of {values.listed(meanings)}", take)


_FLAG = ValueType(bool, "True or False")
_OBJECT = ValueType(dict[str, Any], "a JSON object")
_TEXT = ValueType(str, "text", lambda _, value: value or "./")
_WORDS = ValueType(str | list[str] | None, "a list of words", lambda name, value: values.words(name, value or ()))
_MILLISECONDS = ValueType(
    Annotated[int, Meta(ge=0)] | Annotated[float, Meta(ge=0)] | None,
    "a number of milliseconds of at least 0",
    values.at_least_zero,
)
_RANKS = ValueType(
    Annotated[list[Annotated[int, Meta(ge=0, le=_MAX_STEP)]], Meta(max_length=_MAX_RANKS)],
    "a list of ranks, such as [0, 8]",
    lambda _, value: tuple(value),
)

_ACTIVITIES = {"CPU": "cpu", "NPU": "npu", "GPU": "gpu"}
_EXPORT_TYPES = {"text": "text", "db": "db", "Text": "text", "Db": "db"}
_HOST_SYS = {kind: kind for kind in HOST_SYS}
_LEVELS = {"Level0": 0, "Level1": 1, "Level2": 2}
_METRICS = {name: name for name in AIC_METRICS}
# MindSpore before 2.5; None leaves the choice to the options, where levels 1 and 2 count PipeUtilization.
_NUMBERED_METRICS: Mapping[Any, str | None] = {-1: None, **NUMBERED}
_MINDSPORE_METRICS: Mapping[Any, str | None] = {"AiCoreNone": None, "None": None, **_METRICS, **_NUMBERED_METRICS}

# Keys of both files. The key npuprof holds options by name, which override the other keys.
_EITHER: Mapping[str, Key] = {
    "is_rank": Key(False, _FLAG),
    "rank_list": Key([], _RANKS),
    "metadata": Key({}, _OBJECT),
    "npuprof": Key({}, _OBJECT),
}
_IN_BOTH: Mapping[str, Key] = {
    "activities": Key(["CPU", "NPU"], _any_of(_ACTIVITIES), "activities"),
    "analyse": Key(False, _FLAG),
    "record_shapes": Key(False, _FLAG, "shapes"),
    "profile_memory": Key(False, _FLAG, "memory"),
    "with_stack": Key(False, _FLAG, "stacks"),
}

TORCH_NPU_SPECIAL: Mapping[str, Key] = {
    "profiler_level": Key("Level0", _mapping_kind({**_LEVELS, "Level_none": "none"}), "level"),
    # torch_npu writes its own words; some versions write those of the native library.
    "aic_metrics": Key("AiCoreNone", _mapping_kind({"AiCoreNone": "none", **_METRICS, **NATIVE}), "aic_metrics"),
    "l2_cache": Key(False, _FLAG, "l2"),
    "op_attr": Key(False, _FLAG, "op_attr"),
    "gc_detect_threshold": Key(None, _MILLISECONDS, "gc_detect_threshold"),
    "data_simplification": Key(True, _FLAG, "data_simplification"),
    "record_op_args": Key(False, _FLAG, "record_op_args"),
    "export_type": Key(["text"], _any_of(_EXPORT_TYPES), "export_type"),
    "msprof_tx": Key(False, _FLAG),
    "mstx": Key(False, _FLAG),
    "host_sys": Key([], _any_of(_HOST_SYS), "host_sys"),
    "mstx_domain_include": Key([], _WORDS, "mstx_domain_include"),
    "mstx_domain_exclude": Key([], _WORDS, "mstx_domain_exclude"),
    "sys_io": Key(False, _FLAG, "sys_io"),
    "sys_interconnection": Key(False, _FLAG, "sys_interconnection"),
}

TORCH_NPU: Mapping[str, Key] = {
    **_IN_BOTH,
    "prof_dir": Key("./", _TEXT),
    "async_mode": Key(False, _FLAG),
    "with_flops": Key(False, _FLAG, "flops"),
    "with_modules": Key(False, _FLAG, "modules"),
    "active": Key(1, _whole(1)),
    "warmup": Key(0, _whole(0)),
    "start_step": Key(0, _whole(-1)),
    **_EITHER,
    "is_valid": Key(None, _FLAG),
    "experimental_config": Key({name: key.default for name, key in TORCH_NPU_SPECIAL.items()}, _OBJECT),
}

MINDSPORE: Mapping[str, Key] = {
    "start_step": Key(-1, _whole(-1)),
    "stop_step": Key(-1, _whole(-1)),
    "aic_metrics": Key("AiCoreNone", _mapping_kind(_MINDSPORE_METRICS), "aic_metrics"),
    "profiler_level": Key("Level0", _mapping_kind({**_LEVELS, "LevelNone": "none", -1: 0, 0: 0, 1: 1, 2: 2}), "level"),
    "analyse_mode": Key(-1, _mapping_kind({-1: "", 0: "sync", 1: "async"})),
    **_IN_BOTH,
    "export_type": Key(["text"], _any_of(_EXPORT_TYPES), "export_type"),
    "mstx": Key(False, _FLAG),
    "parallel_strategy": Key(False, _FLAG, "parallel_strategy"),
    "data_simplification": Key(True, _FLAG, "data_simplification"),
    "l2_cache": Key(False, _FLAG, "l2"),
    "prof_path": Key("./", _TEXT),
    "mstx_domain_include": Key([], _WORDS, "mstx_domain_include"),
    "mstx_domain_exclude": Key([], _WORDS, "mstx_domain_exclude"),
    "host_sys": Key([], _any_of(_HOST_SYS), "host_sys"),
    "sys_io": Key(False, _FLAG, "sys_io"),
    "sys_interconnection": Key(False, _FLAG, "sys_interconnection"),
    **_EITHER,
    # MindSpore before 2.5.
    "aicore_metrics": Key(None, _mapping_kind(_MINDSPORE_METRICS), "aic_metrics"),
    "profile_framework": Key(
        None, _mapping_kind({-1: "", 0: "all", 1: "time", "all": "all", "time": "time", None: ""})
    ),
    "profile_communication": Key(None, _FLAG),
}

DIALECTS: Mapping[str, Mapping[str, Key]] = {"torch_npu": TORCH_NPU, "mindspore": MINDSPORE}


def template(dialect: str) -> dict[str, Any]:
    """Return a framework's file with all keys at their defaults, which profiles nothing."""
    return {name: key.default for name, key in DIALECTS[dialect].items() if key.default is not None}
