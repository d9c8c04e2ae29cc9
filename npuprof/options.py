"""Options: one validated description of what to collect, the same for every front end.

The rules are those of the unified option table (Source: formats/frontends.md section 6). Where a vendor
silently coerces a wrong combination, :class:`Options` raises instead and names the allowed values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from npuprof.errors import OptionsError

LEVELS: tuple[str | int, ...] = ("none", 0, 1, 2)
AIC_METRICS: tuple[str, ...] = (
    "PipeUtilization",
    "ArithmeticUtilization",
    "Memory",
    "MemoryL0",
    "MemoryUB",
    "ResourceConflictRatio",
    "L2Cache",
    "MemoryAccess",
)
ACTIVITIES: tuple[str, ...] = ("cpu", "npu")
HOST_SYS: tuple[str, ...] = ("cpu", "mem", "disk", "network", "osrt", "numa")
COLLECTORS: tuple[str, ...] = ("auto", "acl", "simulator")

DEFAULT_OUTPUT = Path("npuprof-recordings")
_MAX_NAME = 100


@dataclass(frozen=True)
class Options:
    """What to collect, validated and complete when constructed.

    Parameters
    ----------
    level
        ``"none"`` (markers only), ``0`` (kernel times), ``1`` (adds CANN calls, shapes and AI Core
        metrics) or ``2`` (adds AI CPU and runtime calls).
    aic_metrics
        One of the eight AI Core metric groups, or ``"none"``. Not given, it is ``PipeUtilization`` at
        levels 1 and 2 and ``"none"`` below, where the hardware does not count.
    activities
        ``"cpu"`` (the host: sampled Python stacks, framework operators), ``"npu"`` (the device and CANN).
    memory
        Sample the device's memory.
    stacks
        Record the Python call stack of each framework operator. Front ends without framework operators
        have the sampled stacks of the ``cpu`` activity only.
    shapes
        Record the shapes of operators' tensors.
    l2
        Record the L2 cache's hits and victims per task.
    marks
        Record markers and ranges.
    host_sys
        Host samples to take: any of ``cpu, mem, disk, network, osrt, numa``.
    output
        Directory below which each recording gets a directory of its own.
    name
        What to call the run; it becomes part of the directory's name.
    collector
        The front end to use, or ``"auto"``.

    Raises
    ------
    OptionsError
        If a value is not allowed or two exclude each other; the message lists what is allowed.
    """

    level: str | int = 1
    aic_metrics: str | None = None
    activities: tuple[str, ...] = ACTIVITIES
    memory: bool = False
    stacks: bool = False
    shapes: bool = False
    l2: bool = False
    marks: bool = True
    host_sys: tuple[str, ...] = ()
    output: Path = DEFAULT_OUTPUT
    name: str = ""
    collector: str = "auto"

    def __post_init__(self) -> None:
        set_ = object.__setattr__  # the dataclass is frozen for everyone else
        set_(self, "level", _level(self.level))
        set_(self, "activities", _subset("activities", self.activities, ACTIVITIES))
        set_(self, "host_sys", _subset("host_sys", self.host_sys, HOST_SYS))
        set_(self, "output", _path(self.output))
        set_(self, "name", _name(self.name))
        for switch in ("memory", "stacks", "shapes", "l2", "marks"):
            _flag(switch, getattr(self, switch))
        _one_of("collector", self.collector, COLLECTORS)
        if self.aic_metrics is None:
            set_(self, "aic_metrics", "PipeUtilization" if self._counts_cores else "none")
        _one_of("aic_metrics", self.aic_metrics, (*AIC_METRICS, "none"))
        self._check_combinations()

    @property
    def _counts_cores(self) -> bool:
        return self.level in (1, 2) and "npu" in self.activities

    def _check_combinations(self) -> None:
        if not self.activities:
            raise OptionsError(f"activities is empty: choose at least one of {_listed(ACTIVITIES)}")
        if self.aic_metrics != "none" and self.level not in (1, 2):
            raise OptionsError(
                f"aic_metrics={self.aic_metrics} needs level 1 or 2, not {self.level}: "
                "raise the level, or set aic_metrics to none"
            )
        if self.level == "none" and not self.marks:
            raise OptionsError(
                "level none records markers only, so it needs marks: turn marks on, or set level 0, 1 or 2"
            )
        if "npu" not in self.activities:
            for option in ("memory", "l2", "aic_metrics", "host_sys"):
                if getattr(self, option) not in (False, "none", ()):
                    raise OptionsError(
                        f"{option} is collected by the device: add npu to activities, or leave {option} out"
                    )
        if "cpu" not in self.activities and self.stacks:
            raise OptionsError("stacks are taken on the host: add cpu to activities, or leave stacks out")
        if self.l2 and self.level == "none":
            raise OptionsError("l2 needs tasks to count for: set level 0, 1 or 2, or leave l2 out")

    def to_dict(self) -> dict[str, Any]:
        """Give a form that JSON can hold."""
        plain = asdict(self)
        plain.update(output=str(self.output), activities=list(self.activities), host_sys=list(self.host_sys))
        return plain

    def to_json(self) -> str:
        """Give the JSON form, as :meth:`from_json` and the environment take it."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Options:
        """Build from names and values.

        Raises
        ------
        OptionsError
            If a name is not an option, or as the class says.
        """
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(plain) - known):
            raise OptionsError(f"unknown option {_listed(unknown)}: the options are {_listed(sorted(known))}")
        return cls(**plain)

    @classmethod
    def from_json(cls, text: str) -> Options:
        """Build from a JSON object.

        Raises
        ------
        OptionsError
            If it is not a JSON object, or as :meth:`from_dict` says.
        """
        try:
            plain = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise OptionsError(f"the options are not valid JSON ({error})") from error
        if not isinstance(plain, dict):
            raise OptionsError(f"the options must be a JSON object, not {type(plain).__name__}")
        return cls.from_dict(plain)


def _listed(values: Iterable[object]) -> str:
    return ", ".join(str(value) for value in values)


def _one_of(option: str, value: object, allowed: tuple[object, ...]) -> None:
    if value not in allowed:
        raise OptionsError(f"{option} must be one of {_listed(allowed)}, not {value!r}")


def _level(value: object) -> str | int:
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    if isinstance(value, bool) or value not in LEVELS:
        raise OptionsError(f"level must be one of {_listed(LEVELS)}, not {value!r}")
    return value


def _subset(option: str, values: str | Iterable[str], allowed: tuple[str, ...]) -> tuple[str, ...]:
    """Take ``"cpu,npu"`` or an iterable; keep the order of `allowed`, once each."""
    words = [word.strip() for word in values.split(",") if word.strip()] if isinstance(values, str) else list(values)
    for word in words:
        if word not in allowed:
            raise OptionsError(f"{option} takes any of {_listed(allowed)}, not {word!r}")
    return tuple(word for word in allowed if word in words)


def _flag(option: str, value: object) -> None:
    if not isinstance(value, bool):
        raise OptionsError(f"{option} must be True or False, not {value!r}")


def _path(value: object) -> Path:
    if not isinstance(value, (str, Path)) or "\0" in str(value) or not str(value):
        raise OptionsError(f"output must be the path of a directory, not {value!r}")
    return Path(value).expanduser()


def _name(value: object) -> str:
    if not isinstance(value, str) or len(value) > _MAX_NAME or re.search(r"[\x00-\x1f/\\]", value):
        raise OptionsError(
            f"name must be up to {_MAX_NAME} characters without slashes or control characters, not {value!r}"
        )
    return value.strip()
