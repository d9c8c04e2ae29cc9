"""Schedules as in the frameworks' profilers: when to collect, step by step.

Source: collectors/FRONTENDS.md sections 1 and 2; the Ascend PyTorch Profiler guide (schedule).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any, TypeAlias

from npuprof.errors import OptionsError
from npuprof.words.quantities import counted


class ProfilerAction(IntEnum):
    """The action of a session during a step; numbered as in torch_npu."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


ScheduleFunction: TypeAlias = Callable[[int], ProfilerAction]
TraceReady: TypeAlias = Callable[[Any], object]
"""A function of a :class:`npuprof.Session`, called after each run."""


@dataclass(frozen=True)
class Schedule:
    """Cycles of skipped, warm-up and recorded steps; call it with a step number for the action.

    The arguments are those of :func:`schedule`.
    """

    wait: int
    active: int
    warmup: int = 0
    repeat: int = 0
    skip_first: int = 0
    skip_first_wait: bool = False

    def __call__(self, step: int) -> ProfilerAction:
        """Return the action of a step, counted from 0."""
        cycle = self.wait + self.warmup + self.active
        step -= self.skip_first
        if step < 0:
            return ProfilerAction.NONE
        if self.skip_first_wait:
            step += self.wait
        if self.repeat and step >= self.repeat * cycle:
            return ProfilerAction.NONE
        place = step % cycle
        if place < self.wait:
            return ProfilerAction.NONE
        if place < self.wait + self.warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < cycle - 1 else ProfilerAction.RECORD_AND_SAVE

    @property
    def numbers(self) -> dict[str, int]:
        """The arguments by name, as torch_npu stores them."""
        return {name: int(value) for name, value in asdict(self).items()}

    @property
    def needed_steps(self) -> int:
        """The number of steps until the schedule ends; for one cycle if it repeats forever."""
        cycles = (self.wait + self.warmup + self.active) * (self.repeat or 1)
        return self.skip_first + cycles - (self.wait if self.skip_first_wait else 0)


def schedule(
    wait: int,
    active: int,
    warmup: int = 0,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Schedule:
    """Build a schedule: after `skip_first` steps, cycles of `wait`, `warmup` and `active` steps.

    Parameters
    ----------
    wait
        Steps per cycle that are skipped.
    active
        Steps per cycle that are recorded; each cycle becomes a run.
    warmup
        Steps per cycle, before the active ones, that warm up the front end, so that the first recorded step starts
        without delay.
    repeat
        The number of cycles; 0 for as long as there are steps.
    skip_first
        Steps skipped before the first cycle.
    skip_first_wait
        If not 0, the first cycle has no `wait`.

    Returns
    -------
    Schedule
        For ``npuprof.profile(schedule=...)``; ``prof.step()`` ends each step.

    Raises
    ------
    OptionsError
        If a number is not whole, is negative, or no step would be recorded.

    Notes
    -----
    The loop should run at least ``skip_first + (wait + warmup + active) * repeat`` steps.
    """
    numbers = {"wait": wait, "active": active, "warmup": warmup, "repeat": repeat, "skip_first": skip_first}
    for name, value in numbers.items():
        least = 1 if name == "active" else 0
        if type(value) is not int or value < least:
            raise OptionsError(f"{name} of a schedule must be a whole number of at least {least}, not {value!r}")
    if skip_first_wait not in (0, 1):
        raise OptionsError(f"skip_first_wait of a schedule must be 0 or 1 (False or True), not {skip_first_wait!r}")
    return Schedule(**numbers, skip_first_wait=bool(skip_first_wait))


def missing_steps(schedule: ScheduleFunction | None, steps: int, action: ProfilerAction) -> str:
    """Return the message for a session that stopped after `steps` steps, before its schedule ended.

    `action` is that of the last step. The message follows the session's title; it is empty if no step is missing or the
    schedule is a custom function.
    """
    if not isinstance(schedule, Schedule):
        return ""
    if steps == 0:
        return "has a schedule, and step() was never called: call it at the end of each step"
    is_last = action == ProfilerAction.RECORD_AND_SAVE and steps == schedule.needed_steps - 1
    if steps >= schedule.needed_steps or is_last:  # a loop may stop the session instead of calling step() a last time
        return ""
    return f"stopped after {counted(steps, 'step')}{steps_needed(schedule)}"


def steps_needed(schedule: ScheduleFunction | None) -> str:
    """Return the end of a message with the number of steps a schedule needs; empty for a custom function."""
    if not isinstance(schedule, Schedule):
        return ""
    return (
        f"; it needs {schedule.needed_steps} (skip_first + (wait + warmup + active) * repeat): "
        "make more steps, or a shorter schedule"
    )
