"""Keyboard actions of the timeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from npuprof.timeline.state import Timeline

CLOSER, FARTHER = 0.5, 2.0
"""Zoom factors of a step in and a step out."""

SHIFT = 0.25
"""The part of the window's length by which a step moves it."""

_ACTIONS: Mapping[str, Callable[[Timeline], object]] = {
    "w": lambda timeline: timeline.zoom(CLOSER),
    "s": lambda timeline: timeline.zoom(FARTHER),
    "a": lambda timeline: timeline.pan(-SHIFT),
    "d": lambda timeline: timeline.pan(SHIFT),
    "f": Timeline.zoom_to_selection,
    "0": Timeline.show_all,
    "n": lambda timeline: timeline.next_match(1),
    "p": lambda timeline: timeline.next_match(-1),
    "ArrowLeft": lambda timeline: timeline.step(-1),
    "ArrowRight": lambda timeline: timeline.step(1),
    "ArrowUp": Timeline.step_to_cause,
    "ArrowDown": Timeline.step_to_effect,
    "Escape": Timeline.clear,
}


def press(timeline: Timeline, key: str) -> bool:
    """Run the action of a key, by its browser name (``w``, ``ArrowLeft`` ...); return whether it has one."""
    action = _ACTIONS.get(key if len(key) > 1 else key.lower())
    if action is None:
        return False
    action(timeline)
    return True
