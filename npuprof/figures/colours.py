"""Colours of slices: a hue per family of work, in stable shades, also for colour-blind readers.

The hues are those of Okabe and Ito, `Color Universal Design`_; they are legible on white and on black.

.. _Color Universal Design: https://jfly.uni-koeln.de/color/
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

FOREGROUND = "#7d838a"
"""Text and axes: a grey with a contrast of about 4 to white and to JupyterLab's dark background."""

FAINT = "rgba(128,128,128,0.25)"
"""Grid lines and empty areas on either background."""

MODEBAR: Mapping[str, object] = {
    "bgcolor": "rgba(0,0,0,0)",
    "color": FOREGROUND,
    "activecolor": FOREGROUND,
    # Profiling data stays on this machine, whatever the front end's default; box and lasso selection do nothing here.
    "remove": ["sendDataToCloud", "sendChartToCloud", "select2d", "lasso2d"],
}
"""The buttons of every figure."""


@dataclass(frozen=True)
class Family:
    """A kind of work, with a hue and a legend entry."""

    label: str
    colour: str
    ink: str = "#111111"
    """Text colour."""
    outline: str = ""
    """Outline colour, if it differs from the fill, to separate adjacent slices."""


FAMILIES: Mapping[str, Family] = {
    "step": Family("steps, marks", "#b4b4b4", outline=FOREGROUND),
    "python": Family("Python", "#56b4e9"),
    "operator": Family("operators", "#009e73"),
    "api": Family("CANN API", "#cc79a7"),
    "matrix": Family("matrix kernels", "#0072b2", ink="#ffffff"),
    "vector": Family("vector kernels", "#e69f00"),
    "movement": Family("data movement", "#f0e442"),
    "communication": Family("communication", "#d55e00"),
    "wait": Family("waiting", "#c8c8c8"),
    "computing": Family("device computes", "#00563f", ink="#ffffff"),
}
"""The families by key, in legend order."""


def family_label(family: str, runtime: str) -> str:
    """Return the legend entry of a family, in a run whose host calls a runtime such as ``CUDA``."""
    return f"{runtime} API" if family == "api" else FAMILIES[family].label


PARTS: Mapping[str, str] = {
    "computing": FAMILIES["computing"].colour,
    "waiting": "#e69f00",
    "moving": FAMILIES["api"].colour,
    "communication": FAMILIES["communication"].colour,
    "copy": FAMILIES["movement"].colour,
    "idle": "rgba(128,128,128,.3)",
    "between_steps": "rgba(128,128,128,.65)",
    "host": FAMILIES["python"].colour,
}
"""Colours of the parts of a step."""

ACTIVITIES: Mapping[str, str] = {
    "dataloader": FAMILIES["movement"].colour,
    "python_gc": "#8c564b",
    "optimizer": FAMILIES["api"].colour,
    "backward": FAMILIES["matrix"].colour,
    "forward": FAMILIES["computing"].colour,
    "other_operators": FAMILIES["operator"].colour,
    "communication": FAMILIES["communication"].colour,
    "python": FAMILIES["python"].colour,
    "unexplained": PARTS["idle"],
}
"""Colours of what the host does, in a run without a device."""

SHADES = (0.0, 0.17, 0.34)
"""The shades of a family's colour, as the fraction of white mixed in."""
_WAIT = re.compile(r"wait|event|notify", re.IGNORECASE)
_MATRIX = re.compile(r"mat_?mul|gemm|bmm|conv(?!ert)|attention|linear", re.IGNORECASE)
_MOVEMENT = re.compile(
    r"mem(cpy|set)|trans(pose|data)|copy|concat|slice|gather|scatter|split|\bpad|tile|sdma|write_value", re.IGNORECASE
)


def device_family(op_type: str, task_type: str, name: str) -> str:
    """Return the family of a device task, by its op type if it has one, else by its name and task type."""
    if _WAIT.search(task_type):
        return "wait"
    text = op_type or f"{name} {task_type}"
    if _MATRIX.search(text):
        return "matrix"
    if _MOVEMENT.search(text):
        return "movement"
    return "wait" if not op_type and _WAIT.search(text) else "vector"


def shade(family: str, name: str) -> str:
    """Return the family's colour in the shade of a name, which is the same in every run."""
    return shades(family)[zlib.crc32(name.encode("utf-8", "surrogatepass")) % len(SHADES)]


def shades(family: str) -> list[str]:
    """Return the shades of a family's colour."""
    return [_whiter(FAMILIES[family].colour, white) for white in SHADES]


def _whiter(colour: str, white: float) -> str:
    channels = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(channel + (255 - channel) * white):02x}" for channel in channels)
