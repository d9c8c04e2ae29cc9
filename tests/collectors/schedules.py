"""Schedules of every shape, each with a number of steps, which the frameworks' own profilers are compared with."""

from __future__ import annotations

SCHEDULES = [
    (
        {
            "wait": wait,
            "warmup": warmup,
            "active": active,
            "repeat": repeat,
            "skip_first": skip,
            "skip_first_wait": first,
        },
        n,
    )
    for wait, warmup, active, repeat, skip, first, n in [
        (0, 0, 1, 0, 0, 0, 3),  # a run a step, and one that the end of the loop cuts
        (0, 0, 1, 1, 0, 0, 3),
        (0, 0, 2, 0, 0, 0, 5),
        (0, 1, 1, 0, 0, 0, 5),
        (1, 1, 2, 2, 0, 0, 8),
        (1, 0, 1, 2, 1, 0, 6),
        (1, 2, 3, 1, 2, 0, 8),
        (2, 1, 1, 2, 1, 1, 9),
        (1, 1, 2, 1, 0, 0, 3),  # the loop ends at the last step of the cycle,
        (1, 1, 2, 1, 0, 0, 2),  # and before it
        (0, 0, 3, 1, 0, 0, 0),
    ]
]
