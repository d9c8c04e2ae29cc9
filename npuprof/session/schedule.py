"""When to collect: the schedule of the frameworks' profilers, step by step.

Source: collectors/FRONTENDS.md sections 1 and 2; the Ascend PyTorch Profiler guide (schedule).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import TypeAlias

from npuprof.errors import OptionsError


class ProfilerAction(IntEnum):
    """What a session does during one step; numbered as torch_npu numbers it."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


ScheduleFunction: TypeAlias = Callable[[int], ProfilerAction]


@dataclass(frozen=True)
class Schedule:
    """Steps left out, prepared for and recorded, in cycles; call it with a step's number for its action.

    Attributes
    ----------
    wait, warmup, active
        Steps of one cycle that are left out, prepared for, and recorded.
    repeat
        How many cycles; 0 for as many as there are steps.
    skip_first
        Steps left out before the first cycle.
    skip_first_wait
        Whether the first cycle goes without its `wait`.
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
        """The arguments by name, as torch_npu keeps them."""
        return {name: int(value) for name, value in asdict(self).items()}

    @property
    def needed_steps(self) -> int:
        """How many steps a run must make for the schedule to end; for one cycle where it repeats for ever."""
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
    """Make a schedule: after `skip_first` steps, cycles of `wait`, `warmup` and `active` steps.

    Parameters
    ----------
    wait
        Steps of a cycle that are left out.
    active
        Steps of a cycle that are recorded; each cycle becomes a run of its own.
    warmup
        Steps before those, in which the front end is made ready: the first recorded step then begins without delay.
    repeat
        How many cycles to record; 0 repeats for as long as there are steps.
    skip_first
        Steps left out before the first cycle.
    skip_first_wait
        Not 0: the first cycle goes without its `wait`.

    Returns
    -------
    Schedule
        To be given as ``npuprof.profile(schedule=...)``; ``prof.step()`` ends each step.

    Raises
    ------
    OptionsError
        If a number is not whole, is negative, or no step would be recorded.

    Notes
    -----
    A loop should make at least ``skip_first + (wait + warmup + active) * repeat`` steps.
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
    """Return the message for a session that stopped before its schedule had ended.

    Parameters
    ----------
    schedule
        Its schedule, if it has one.
    steps, action
        How many steps it has ended, and the action of the one at which it stopped.

    Returns
    -------
    What the session did, to stand after its title; empty where nothing is missing, or only a function knows.
    """
    if not isinstance(schedule, Schedule):
        return ""
    if steps == 0:
        return "has a schedule, and step() was never called: call it at the end of each step"
    is_last = action == ProfilerAction.RECORD_AND_SAVE and steps == schedule.needed_steps - 1
    if steps >= schedule.needed_steps or is_last:  # a loop may stop the session in place of its last step()
        return ""
    return f"stopped after {steps} steps{steps_needed(schedule)}"


def steps_needed(schedule: ScheduleFunction | None) -> str:
    """Return the end of a message that tells how many steps a schedule needs; empty where only a function knows."""
    if not isinstance(schedule, Schedule):
        return ""
    return (
        f"; it needs {schedule.needed_steps} (skip_first + (wait + warmup + active) * repeat): "
        "make more steps, or a shorter schedule"
    )
