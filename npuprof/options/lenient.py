"""Options from a vendor's file or variable: invalid and unsupported options are reported and ignored."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from npuprof.errors import OptionsError
from npuprof.options import Options

_USUAL = {"level": 0}
"""Vendors' defaults that differ from npuprof's."""


def build(
    plain: Mapping[str, Any],
    warn: Callable[[str], object],
    check: Callable[[Options], object] = lambda _: None,
    typed: Collection[str] = (),
) -> Options:
    """Build options, leaving out rejected ones.

    Parameters
    ----------
    typed
        Options given under their npuprof names: if invalid, they raise instead of being left out.
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
            warn(f"{' and '.join(names)} left out: {error}")
        else:
            return options
