"""Axes of a figure that is drawn as SVG: where a value is, ticks, and texts of plotly as XML."""

from __future__ import annotations

import base64
import html
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npuprof.arrays import Float64
from npuprof.figures.colours import FAINT
from npuprof.words.quantities import shortened

CHARACTER = 5.6
"""The approximate width of a character at 10 pixels."""

_LONGEST_LINE, LONGEST_TICK = 150, 40
_LARGEST = 1e300  # what is larger has no place: sums of it would be infinite
_STEPS = (1, 2, 2.5, 5, 10)
_TAG = re.compile(r"<[^>]*>")
_SWATCH = re.compile(r'<span style="color:(#[0-9a-f]{6})">([■▪])</span>')


def plain(text: object, longest: int = _LONGEST_LINE) -> str:
    """Return a text of plotly, which may have tags and escapes, for XML."""
    return html.escape(shortened(html.unescape(_TAG.sub("", str(text))), longest), quote=False)


def lines_of(text: object) -> list[str]:
    """Return the lines of a text of plotly for XML, without empty ones; squares of a key keep their colour."""
    return [line for part in re.split(r"<br\s*/?>", str(text or "")) if (line := _line(part).strip())]


def _line(text: str) -> str:
    first, *keys = _SWATCH.split(text)
    swatches = zip(keys[::3], keys[1::3], keys[2::3], strict=True)
    return plain(first) + "".join(
        f'<tspan fill="{colour}">{mark}</tspan>{plain(after)}' for colour, mark, after in swatches
    )


def listed(value: Any) -> list[Any]:
    """Return the values of an array, as Python, NumPy or plotly's JSON holds it."""
    if value is None:
        return []
    if isinstance(value, Mapping):
        rows = np.frombuffer(base64.b64decode(value["bdata"]), np.dtype(str(value["dtype"])))
        shape = [int(size) for size in str(value["shape"]).split(",")] if "shape" in value else [-1]
        value = rows.reshape(shape)
    return value.tolist() if isinstance(value, np.ndarray) else list(value)


@dataclass
class Axis:
    """An axis: its options, and the place of each value along it, from 0 to 1."""

    look: Mapping[str, Any]
    names: dict[Any, int] = field(default_factory=dict)
    low: float = math.inf
    high: float = -math.inf

    @property
    def is_of_names(self) -> bool:
        """Whether its values are names, each with a place of its own."""
        return bool(self.names)

    def values(self, given: Any) -> Float64:
        """Return values as numbers: logarithms on such an axis, and positions of names, which are remembered."""
        if (
            isinstance(given, list | tuple)
            and len(given) == 2
            and all(isinstance(value, list | tuple) for value in given)
        ):
            given = [f"{inner} · {outer}" for outer, inner in zip(*given, strict=True)]  # names on two levels
        flat = listed(given)
        if self.look.get("type") in ("category", "multicategory") or any(isinstance(value, str) for value in flat):
            return np.array([self.names.setdefault(str(value), len(self.names)) for value in flat], np.float64)
        values = np.array([math.nan if value is None else value for value in flat], np.float64)
        values[np.abs(values) > _LARGEST] = np.nan
        if self.look.get("type") == "log":
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.where(values > 0, np.log10(values), np.nan)
        return values

    def stretch(self, *parts: Float64) -> None:
        """Make room for values."""
        for part in parts:
            known = part[np.isfinite(part)]
            if len(known):
                self.low, self.high = min(self.low, float(known.min())), max(self.high, float(known.max()))

    def settle(self) -> None:
        """Choose the range: the figure's own, or the range of the values with a margin."""
        if (given := self.look.get("range")) is not None and all(isinstance(value, int | float) for value in given):
            self.low, self.high = map(float, given)
        elif self.is_of_names:
            self.low, self.high = -0.5, len(self.names) - 0.5
        elif not math.isfinite(self.low):
            self.low, self.high = 0.0, 1.0
        else:
            if self.look.get("rangemode") == "tozero" or self.low > 0 > self.low - (self.high - self.low):
                self.low = min(self.low, 0.0) if self.look.get("type") != "log" else self.low
            margin = (self.high - self.low or abs(self.high) or 1.0) * 0.05
            self.low, self.high = self.low - margin * (self.low != 0), self.high + margin
        if self.look.get("autorange") == "reversed":
            self.low, self.high = self.high, self.low
        if self.low == self.high:
            self.high = self.low + 1.0

    def place(self, values: Float64) -> Float64:
        """Return places along the axis, clipped where nothing is shown."""
        return np.clip((values - self.low) / (self.high - self.low), -0.001, 1.001)

    def ticks(self, most: int) -> list[tuple[float, str]]:
        """Return values and texts of the ticks."""
        if self.look.get("visible") is False or self.look.get("showticklabels") is False:
            return []
        if (given := self.look.get("tickvals")) is not None:
            texts = listed(self.look.get("ticktext")) or [
                f"{value:g}" if isinstance(value, int | float) else str(value) for value in listed(given)
            ]
            return _spread(list(zip(self.values(given).tolist(), map(str, texts), strict=False)), most)
        if self.is_of_names:
            return _spread([(float(at), name) for name, at in self.names.items()], most)
        low, high = sorted((self.low, self.high))
        if self.look.get("type") == "log":
            return [(float(power), f"{10.0**power:g}") for power in range(math.ceil(low), math.floor(high) + 1)]
        rough = (high - low) / max(most, 1)
        power = 10.0 ** math.floor(math.log10(rough))
        step = next((factor * power for factor in _STEPS if factor * power >= rough), 10 * power)
        suffix = str(self.look.get("ticksuffix") or "")
        numbers = range(math.ceil(low / step), math.floor(high / step) + 1)
        return [(number * step, f"{number * step:,.10g}{suffix}") for number in numbers]


def _spread(ticks: list[tuple[float, str]], most: int) -> list[tuple[float, str]]:
    return ticks[:: max(1, math.ceil(len(ticks) / max(most, 1)))]


@dataclass(frozen=True)
class Plot:
    """A pair of axes and its frame in pixels."""

    x: Axis
    y: Axis
    left: float
    top: float
    width: float
    height: float

    def across(self, values: Float64) -> Float64:
        """Return the pixels of values of the first axis."""
        return self.left + self.x.place(values) * self.width

    def down(self, values: Float64) -> Float64:
        """Return the pixels of values of the second axis."""
        return self.top + (1 - self.y.place(values)) * self.height


def frame(plot: Plot) -> Iterator[str]:
    """Yield grid lines and ticks."""
    bottom = plot.top + plot.height
    for value, text in plot.x.ticks(max(2, int(plot.width / 90))):
        x = float(plot.across(np.array([value]))[0])
        yield f'<path d="M{x:.1f} {plot.top:.1f}V{bottom:.1f}" stroke="{_grid(plot.x)}"/>'
        y = plot.top - 4 if plot.x.look.get("side") == "top" else bottom + 12
        yield f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{plain(text, 16)}</text>'
    for value, text in plot.y.ticks(max(2, int(plot.height / 14))):
        y = float(plot.down(np.array([value]))[0])
        if not plot.y.is_of_names and plot.y.look.get("tickvals") is None:
            yield f'<path d="M{plot.left:.1f} {y:.1f}h{plot.width:.1f}" stroke="{_grid(plot.y)}"/>'
        for at, line in enumerate(lines_of(text)):
            shown = plain(html.unescape(line), LONGEST_TICK)
            yield f'<text x="{plot.left - 5:.1f}" y="{y + 3.5 + 11 * at:.1f}" text-anchor="end">{shown}</text>'


def _grid(axis: Axis) -> str:
    return "none" if axis.look.get("showgrid") is False else FAINT
