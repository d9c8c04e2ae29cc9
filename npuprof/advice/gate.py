"""Gates: ``step < 160ms and idle < 30%``, a small grammar over the parts of a step."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from npuprof.advice.findings import Advice
from npuprof.errors import NpuprofError, OptionsError
from npuprof.quantities import duration

_UNITS = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_OPERATORS: Mapping[str, Callable[[Fraction, Fraction], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d{1,18}(?:\.\d{1,18})?)\s*(?P<unit>ns|us|µs|ms|s|%)?(?![\w.])"
    r"|(?P<name>[a-z_]+)|(?P<sign><=|>=|==|!=|[<>*]))"
)
_LONGEST = 1_000
_LONGEST_NS = 1 << 63
_EXAMPLE = "step < 160ms and idle < 30%"


class GateError(NpuprofError, AssertionError):
    """A gate does not hold; the message has the figures."""


@dataclass(frozen=True)
class _Value:
    """One side of a comparison: nanoseconds, or a plain number as a factor; `text` is the side as written."""

    text: str
    nanoseconds: Fraction | None
    factor: Fraction | None = None


@dataclass(frozen=True)
class Comparison:
    """A comparison of a gate, with the figures of a run.

    Attributes
    ----------
    text
        The comparison as written.
    left_ns, right_ns
        Its sides in nanoseconds.
    holds
        Whether the comparison is true.
    """

    text: str
    left_ns: Fraction
    right_ns: Fraction
    holds: bool


def figures(advice: Advice) -> dict[str, int]:
    """Return the names that a gate may use for a run, in nanoseconds per step: ``step`` and the parts of a step."""
    return {"step": advice.step_ns, **advice.parts(), **advice.idle_parts()}


def check(text: str, names: Mapping[str, int]) -> list[Comparison]:
    """Evaluate a gate.

    Parameters
    ----------
    text
        Comparisons joined by ``and``: names, times such as ``160ms``, percentages of the step such as ``30%``, and
        products with a plain number, such as ``best * 1.05``.
    names
        Nanoseconds by name; percentages need ``step``.

    Returns
    -------
    list[Comparison]
        Every comparison, in order.

    Raises
    ------
    OptionsError
        If the text is not a gate, or uses an unknown name.
    """
    if len(text) > _LONGEST:
        raise OptionsError(f"a gate has at most {_LONGEST:,} characters, and this one has {len(text):,}")
    return [_comparison(part, names) for part in re.split(r"\band\b", text)]


def require(text: str, names: Mapping[str, int]) -> list[Comparison]:
    """Evaluate a gate as :func:`check` does, and raise if it does not hold.

    Raises
    ------
    GateError
        With the figures of every comparison that does not hold.
    OptionsError
        See :func:`check`.
    """
    compared = check(text, names)
    failed = [limit for limit in compared if not limit.holds]
    if failed:
        failures = "; ".join(
            f"{limit.text}: {_write(limit.left_ns)} against {_write(limit.right_ns)}" for limit in failed
        )
        raise GateError(f"the gate does not hold: {failures}")
    return compared


def _write(nanoseconds: Fraction) -> str:
    return duration(round(nanoseconds))


def _comparison(text: str, names: Mapping[str, int]) -> Comparison:
    tokens = _tokens(text)
    signs = [place for place, token in enumerate(tokens) if token["sign"] in _OPERATORS]
    if len(signs) != 1:
        raise _wrong(text, "needs one comparison before and after each `and`")
    left, right = (_side(part, text, names) for part in (tokens[: signs[0]], tokens[signs[0] + 1 :]))
    if left.nanoseconds is None or right.nanoseconds is None:
        raise _wrong(text, "needs times on both sides: a plain number needs a unit (ns, us, ms, s, or % of the step)")
    holds = _OPERATORS[tokens[signs[0]]["sign"] or ""](left.nanoseconds, right.nanoseconds)
    return Comparison(" ".join(text.split()), left.nanoseconds, right.nanoseconds, holds)


def _tokens(text: str) -> list[dict[str, str | None]]:
    tokens, place = [], 0
    while text[place:].strip():
        match = _TOKEN.match(text, place)
        if match is None:
            raise _wrong(text, f"cannot be read from {text[place:].strip()[:20]!r} on")
        tokens.append(match.groupdict())
        place = match.end()
    return tokens


def _side(tokens: list[dict[str, str | None]], text: str, names: Mapping[str, int]) -> _Value:
    values = [_value(token, text, names) for token in tokens[::2]]
    if not values or len(tokens) % 2 == 0 or any(token["sign"] != "*" for token in tokens[1::2]):
        raise _wrong(text, "needs a name, a time, or a product with a number on each side")
    nanoseconds: Fraction | None = None
    factor = Fraction(1)
    for value in values:
        if value.nanoseconds is None:
            factor *= value.factor or 0
        elif nanoseconds is None:
            nanoseconds = value.nanoseconds
        else:
            raise _wrong(text, "may multiply a time with plain numbers only")
    if nanoseconds is not None and abs(nanoseconds := nanoseconds * factor) >= _LONGEST_NS:
        raise _wrong(text, "has a longer time than any run")
    return _Value(text, nanoseconds, factor)


def _value(token: dict[str, str | None], text: str, names: Mapping[str, int]) -> _Value:
    number, unit, name = token["number"], token["unit"], token["name"]
    if number is not None:
        if unit is None:
            return _Value(number, None, Fraction(number))
        whole = Fraction(names["step"], 100) if unit == "%" else Fraction(_UNITS[unit])
        return _Value(number, Fraction(number) * whole)
    if name is None:
        raise _wrong(text, "needs a name, a time, or a product with a number on each side")
    if name not in names:
        raise OptionsError(f"a gate knows no {name!r}; its names are {', '.join(names)}")
    return _Value(name, Fraction(names[name]))


def _wrong(text: str, reason: str) -> OptionsError:
    return OptionsError(f"{' '.join(text.split())!r} is no gate: it {reason}. Such as: {_EXAMPLE}")
