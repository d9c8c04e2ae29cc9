"""Options of a vendor's own file or variable: what cannot be had of them is told and left out, and the rest stays."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from npuprof.errors import OptionsError
from npuprof.options import Options

_USUAL = {"level": 0}
"""What the vendors mean where an option is left out, and npuprof means another."""


def build(
    plain: Mapping[str, Any],
    tell: Callable[[str], object],
    check: Callable[[Options], object] = lambda _: None,
    typed: Collection[str] = (),
) -> Options:
    """Build options without those that are refused.

    Parameters
    ----------
    plain
        The options by name.
    tell
        Called with what was left out and why.
    check
        Refuses what a front end cannot do.
    typed
        Options that were typed for npuprof: these are not left out.

    Raises
    ------
    OptionsError
        If leaving options out does not mend it, or one of them was typed for npuprof.
    """
    left = dict(plain)
    while True:
        try:
            options = Options.from_dict(left)
            check(options)
        except OptionsError as error:
            refused = [name for name in error.options if name in left]
            if not refused or not set(refused).isdisjoint(typed):
                raise
            for name in refused:
                usual = error.remaining.get(name) or _USUAL.get(name)
                if usual is not None and left[name] != usual:
                    left[name] = usual
                else:
                    del left[name]
            names = [f"a part of {name}" if error.remaining.get(name) else name for name in refused]
            tell(f"{' and '.join(names)} left out: {error}")
        else:
            return options
