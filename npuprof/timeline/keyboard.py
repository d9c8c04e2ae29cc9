"""What the keys do to a timeline, with and without a browser."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from npuprof.timeline.state import Timeline

CLOSER, FARTHER = 0.5, 2.0
"""How much of the window is shown after one step closer, and one back."""

SHIFT = 0.25
"""By which part of its length one step moves the window."""

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
    """Do what a key stands for; give whether it stands for anything.

    Parameters
    ----------
    timeline
        What is looked at.
    key
        The key's name as browsers give it: ``w``, ``ArrowLeft`` ...
    """
    action = _ACTIONS.get(key if len(key) > 1 else key.lower())
    if action is None:
        return False
    action(timeline)
    return True
