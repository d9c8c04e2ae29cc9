"""What a profiler configuration asks for: the bits of its mask and its settings, as questions with answers.

Source: collectors/FRONTENDS.md sections 3.3 and 3.6.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

ACL_API = 0x1
TASK_TIME = 0x2
AICORE_METRICS = 0x4
L2CACHE = 0x10
HCCL_TRACE = 0x20
TRAINING_TRACE = 0x40
MSPROFTX = 0x80
RUNTIME_API = 0x100
TASK_TIME_L0 = 0x800
TASK_MEMORY = 0x1000
TASK_TIME_L2 = 0x2000
TASK_TIME_L3 = 0x8000
KNOWN_BITS = 0x4000000C0100FBFF

METRIC_NONE = 0xFF
SET_HARDWARE_MEMORY_FREQUENCY = 3


@dataclass(frozen=True)
class Collection:
    """One configuration of the collector.

    Attributes
    ----------
    device_ids
        The devices to collect from.
    metric
        The ``aicoreMetrics`` number.
    mask
        The ``data_type_config`` bits.
    settings
        What ``set_config`` was given, by kind.
    """

    device_ids: tuple[int, ...]
    metric: int
    mask: int
    settings: Mapping[int, str] = field(default_factory=dict)

    def _asks(self, bits: int) -> bool:
        return bool(self.mask & bits)

    @cached_property
    def acl_api(self) -> bool:
        """Whether acl calls are wanted."""
        return self._asks(ACL_API)

    @cached_property
    def runtime_api(self) -> bool:
        """Whether runtime calls are wanted."""
        return self._asks(RUNTIME_API)

    @cached_property
    def tasks(self) -> bool:
        """Whether tasks and their times are wanted, at any level."""
        return self._asks(TASK_TIME | TASK_TIME_L0 | TASK_TIME_L2 | TASK_TIME_L3)

    @cached_property
    def operator_details(self) -> bool:
        """Whether types, shapes and block counts of operators are wanted: level 1 and above."""
        return self._asks(TASK_TIME | TASK_TIME_L2 | TASK_TIME_L3)

    @cached_property
    def communication(self) -> bool:
        """Whether it is wanted what communication operators and their steps carry."""
        return self._asks(HCCL_TRACE)

    @cached_property
    def counters(self) -> bool:
        """Whether hardware counters of kernels are wanted."""
        return self._asks(AICORE_METRICS) and self.metric != METRIC_NONE

    @cached_property
    def l2_cache(self) -> bool:
        """Whether second-level cache counters of kernels are wanted."""
        return self._asks(L2CACHE)

    @cached_property
    def marks(self) -> bool:
        """Whether markers and ranges are wanted."""
        return self._asks(MSPROFTX)

    @cached_property
    def steps(self) -> bool:
        """Whether step tags are wanted: they come with tasks, markers or the training trace."""
        return self.tasks or self._asks(MSPROFTX | TRAINING_TRACE)

    @cached_property
    def allocations(self) -> bool:
        """Whether a record for each allocation is wanted."""
        return self._asks(TASK_MEMORY)

    @cached_property
    def memory_hz(self) -> int:
        """How often device memory and its bandwidth are sampled; 0 for not at all."""
        return int(self.settings.get(SET_HARDWARE_MEMORY_FREQUENCY, "0"))

    @cached_property
    def level(self) -> str:
        """The level of task collection as ``l0`` to ``l3``, or ``off``."""
        levels = ((TASK_TIME_L3, "l3"), (TASK_TIME_L2, "l2"), (TASK_TIME, "l1"), (TASK_TIME_L0, "l0"))
        return next((level for bit, level in levels if self._asks(bit)), "off")
