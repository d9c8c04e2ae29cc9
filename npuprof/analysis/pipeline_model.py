"""A model of a pipeline: which schedule its sends follow, and how long a step takes with other micro-batches.

A stage runs forward and backward passes of micro-batches. Between them it meets its neighbours: the k-th send or
receive of a border is the same on both sides, and ends when both are there and the data has moved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from npuprof.arrays import Float64

Token: TypeAlias = Literal["prev", "next", "forward", "backward"]
Schedule: TypeAlias = Literal["GPipe", "1F1B", "1F1B with joint sends and receives"]
_SCHEDULES: tuple[Schedule, ...] = ("GPipe", "1F1B", "1F1B with joint sends and receives")
_PASSES = ("forward", "backward")
_EDGES = ("prev", "next")


@dataclass(frozen=True)
class StageTimes:
    """What a stage did in a step; times in nanoseconds."""

    # The border of each send or receive, in order: to the stage before it (`prev`) or after it (`next`).
    borders: tuple[str, ...]
    before_ns: Float64  # work before each of them, since the end of the one before
    after_ns: float  # work after the last one, until the step ends on this stage, without waiting
    moving_ns: Float64  # how long each of them moves data


@dataclass(frozen=True)
class Pipeline:
    """A pipeline whose schedule is known."""

    # schedule, microbatches: the schedule, and the micro-batches of a step.
    schedule: Schedule
    microbatches: int
    # forward_ns, backward_ns: time of each stage's passes, of shape (stages, micro-batches).
    forward_ns: Float64
    backward_ns: Float64
    tail_ns: Float64  # work of each stage after its last micro-batch
    moving_ns: float  # mean time of a send or receive

    @property
    def stages(self) -> int:
        """The number of stages."""
        return len(self.forward_ns)

    def theory(self, chunks: int = 1) -> float:
        """Return the share of the pipelined part that even stages are idle: (p - 1) / (m + p - 1).

        With several `chunks` of layers on each stage (interleaved) it is (p - 1) / (v m + p - 1).
        """
        return (self.stages - 1) / (chunks * self.microbatches + self.stages - 1)

    @property
    def busiest_ns(self) -> float:
        """The work of the stage with the most, with what comes after the last micro-batch."""
        return float((self.forward_ns.sum(axis=1) + self.backward_ns.sum(axis=1) + self.tail_ns).max())

    def step_ns(self, split: int = 1) -> float:
        """Return how long a step takes by the model."""
        times = {
            "forward": np.repeat(self.forward_ns / split, split, axis=1),
            "backward": np.repeat(self.backward_ns / split, split, axis=1),
        }
        programs = []
        for stage in range(self.stages):
            done = dict.fromkeys(_PASSES, 0)
            before: list[float] = []
            edges: list[str] = []
            elapsed = 0.0
            for token in program(self.schedule, self.stages, self.microbatches * split, stage):
                if token in _EDGES:
                    before.append(elapsed)
                    edges.append(token)
                    elapsed = 0.0
                else:
                    elapsed += float(times[token][stage, done[token]])
                    done[token] += 1
            programs.append((edges, before, elapsed + float(self.tail_ns[stage])))
        return _played(programs, self.moving_ns / split)


def program(schedule: Schedule, stages: int, microbatches: int, stage: int) -> Iterator[Token]:
    """Yield what a stage does in a step: forward and backward passes, and what it exchanges with its neighbours."""
    joint = schedule == _SCHEDULES[2]
    edges = {"prev": stage > 0, "next": stage + 1 < stages}
    warm = microbatches if schedule == "GPipe" else min(stages - 1 - stage, microbatches)
    steady = microbatches - warm
    order: list[Token] = ["prev", "forward", "next"] * warm
    if joint:
        order += ["prev"] if steady else []
        order += ["forward", "next", "backward", "prev"] * steady
    else:
        order += ["prev", "forward", "next", "next", "backward", "prev"] * steady
    order += ["next", "backward", "prev"] * warm
    yield from (token for token in order if edges.get(token, True))


def pipeline_of(stages: Sequence[StageTimes]) -> Pipeline | None:
    """Return the pipeline whose schedule has the recorded sends and receives of all stages; None if none has.

    Where several have them, as with two stages, it is the schedule by which the passes of a stage differ least.
    """
    count = stages[-1].borders.count("prev")
    fitting = []
    for schedule in _SCHEDULES:
        microbatches = count - 1 if schedule == _SCHEDULES[2] else count // 2
        if microbatches < 1:
            continue
        programs = [list(program(schedule, len(stages), microbatches, stage)) for stage in range(len(stages))]
        borders = [tuple(token for token in tokens if token in _EDGES) for tokens in programs]
        if borders == [each.borders for each in stages]:
            fitting.append(_fitted(schedule, microbatches, stages, programs))
    return min(fitting, key=_unevenness, default=None)


def _unevenness(pipeline: Pipeline) -> float:
    passes = (pipeline.forward_ns, pipeline.backward_ns)
    return float(sum((np.abs(times - np.median(times, axis=1, keepdims=True))).sum() for times in passes))


def _fitted(
    schedule: Schedule, microbatches: int, stages: Sequence[StageTimes], programs: Sequence[Sequence[Token]]
) -> Pipeline:
    fitted = [_passes(stage, tokens) for stage, tokens in zip(stages, programs, strict=True)]
    forward, backward = (np.array([passes[name] for passes, _ in fitted], np.float64) for name in _PASSES)
    moving = np.concatenate([stage.moving_ns for stage in stages])
    tails = np.array([tail for _, tail in fitted], np.float64)
    return Pipeline(schedule, microbatches, forward, backward, tails, float(moving.mean()))


def _passes(stage: StageTimes, tokens: Sequence[Token]) -> tuple[dict[str, list[float]], float]:
    """Return the times of a stage's passes, and its work after the last one.

    Where a forward pass and a backward pass have nothing between them, and where work of another kind follows, they
    take as long as others of the stage, or a backward pass twice as long as a forward pass.
    """
    works: list[list[str]] = [[]]
    for token in tokens:
        if token in _EDGES:
            works.append([])
        else:
            works[-1].append(token)
    times = [*stage.before_ns.tolist(), stage.after_ns]
    alone = {name: [time for work, time in zip(works[:-1], times, strict=False) if work == [name]] for name in _PASSES}
    usual = {name: float(np.median(values)) for name, values in alone.items() if values}
    passes: dict[str, list[float]] = {name: [] for name in _PASSES}
    for work, time in zip(works[:-1], times, strict=False):
        forward = min(usual.get("forward", time / 3), time)
        divided = {"forward": forward, "backward": time - forward} if len(work) > 1 else dict.fromkeys(work, time)
        for name in work:
            passes[name].append(divided[name])
    rest = times[-1]
    for name in works[-1]:
        twice = {"forward": usual.get("backward", rest) / 2, "backward": 2 * usual.get("forward", rest / 2)}
        passes[name].append(min(usual.get(name, twice[name]), rest))
        rest -= passes[name][-1]
    return passes, rest


def _played(programs: Sequence[tuple[Sequence[str], Sequence[float], float]], moving_ns: float) -> float:
    """Return when the last stage ends; programs are the borders of each stage, the work before each, and after all."""
    clock, at = [0.0] * len(programs), [0] * len(programs)
    met = True
    while met:
        met = False
        for stage in range(len(programs) - 1):
            pair = (stage, stage + 1)
            while all(
                at[each] < len(programs[each][0]) and programs[each][0][at[each]] == edge
                for each, edge in zip(pair, ("next", "prev"), strict=True)
            ):
                end = max(clock[each] + programs[each][1][at[each]] for each in pair) + moving_ns
                for each in pair:
                    clock[each], at[each] = end, at[each] + 1
                met = True
    return max(time + after for time, (_, _, after) in zip(clock, programs, strict=True))
