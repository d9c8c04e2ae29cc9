"""The palette: one meaning a colour in every view, on light and on dark pages, also for colour-blind readers.

The relative luminance of all colours lies between 0.146 and 0.30, where the contrast is at least 3:1 both to white and
to JupyterLab's dark background; no two of them look alike with protanopia, deuteranopia or tritanopia
(``tests/figures/test_colours.py`` simulates them). What a colour means is also written: in a legend, a title or a bar.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

FOREGROUND = "#7d838a"
"""Text, axes and what is of no kind: a grey with a contrast of about 4 to white and to JupyterLab's dark background."""

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

_BLACK, _WHITE = "#000000", "#ffffff"
_INK_CHANGES_AT = 0.179  # the luminance at which black and white text have the same contrast


def ink(colour: str) -> str:
    """Return the colour of text on a colour of the palette: black or white, with a contrast of at least 4:1."""
    return _BLACK if luminance(colour) >= _INK_CHANGES_AT else _WHITE


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour such as ``#5898c8``, from 0 to 1 (WCAG 2)."""
    light = (value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in _channels(colour))
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), light, strict=True))


def _channels(colour: str) -> list[float]:
    return [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]


@dataclass(frozen=True)
class Family:
    """A kind of work, with a hue and a legend entry."""

    label: str
    colour: str

    @property
    def ink(self) -> str:
        """Text colour."""
        return ink(self.colour)


FAMILIES: Mapping[str, Family] = {
    "step": Family("steps, marks", FOREGROUND),
    "python": Family("Python", "#3088d0"),
    "operator": Family("operators", "#50a040"),
    "api": Family("CANN API", "#c870b0"),
    "matrix": Family("matrix kernels", "#7888f0"),
    "vector": Family("vector kernels", "#d07800"),
    "movement": Family("data movement", "#807000"),
    "communication": Family("communication", "#c04050"),
    "wait": Family("waiting", "#7858ff"),
    "computing": Family("device computes", "#308060"),
}
"""The families by key, in legend order."""


ON_DEVICE = ("matrix", "vector", "movement", "communication", "wait")
"""The families of device tasks, which share lanes: the lanes of the others have names."""


def family_label(family: str, runtime: str) -> str:
    """Return the legend entry of a family, in a run whose host calls a runtime such as ``CUDA``."""
    return f"{runtime} API" if family == "api" else FAMILIES[family].label


PARTS: Mapping[str, str] = {
    "computing": FAMILIES["computing"].colour,
    "waiting": FAMILIES["wait"].colour,
    "moving": "#b05038",
    "communication": FAMILIES["communication"].colour,
    "copy": FAMILIES["movement"].colour,
    "idle": "#8f959c",
    "between_steps": "#6b7076",
    "not_recorded": FOREGROUND,
    "host": FAMILIES["python"].colour,
}
"""Colours of the parts of a step."""

UNKNOWN = FOREGROUND
"""Time of which no kind is known."""

ACTIVITIES: Mapping[str, str] = {
    "dataloader": "#909058",
    "python_gc": "#986890",
    "optimizer": "#c07838",
    "backward": "#7860b0",
    "forward": "#b08880",
    "other_operators": FAMILIES["operator"].colour,
    "communication": FAMILIES["communication"].colour,
    "python": FAMILIES["python"].colour,
    "unexplained": UNKNOWN,
}
"""Colours of what the host does, in a run without a device; also of the passes in a pipeline."""

MEMORY = "#08a0b8"
"""Memory that is in use."""

SEVERITIES: Mapping[str, str] = {"error": "#ff4838", "warning": "#b27d00", "info": FOREGROUND}
"""Lines beside messages, and badges."""

SLOWER, FASTER = "#ff4838", "#4868e8"
"""What takes longer and what takes shorter, than in another run or on the other ranks."""

MATCH = "#d010b8"
"""Outline of what is selected, or matches a search."""

SERIES = (*(FAMILIES[key].colour for key in ("python", "vector", "operator", "api")), MEMORY, "#c04050", "#909058")
"""Lines of one kind, such as counters, by number: the legend says which is which."""

SHADES = (0.0, 0.02, 0.04)
"""The shades of a family's colour, as the fraction of white mixed into dark colours, and of black into bright ones.

They are close: a stronger shade of one family would look like another to colour-blind readers.
"""
_MIDDLE = 0.21  # of the luminance of the palette
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
    colour = FAMILIES[family].colour
    towards = 1.0 if luminance(colour) < _MIDDLE else 0.0
    return [
        "#" + "".join(f"{round(255 * (value + (towards - value) * part)):02x}" for value in _channels(colour))
        for part in SHADES
    ]
