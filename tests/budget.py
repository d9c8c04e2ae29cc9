"""How many examples property tests try.

``--hypothesis-profile`` chooses: ``fast`` (as ``-m "not slow"`` does by itself), ``default``, ``more`` (as ``.ci/run``
does) or ``full``. The first three try the same examples in every run; ``full`` tries many, and others each time.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

USUAL = "default"
_EXAMPLES = 100

for _name, _examples in (
    ("fast", _EXAMPLES // 5),
    (USUAL, _EXAMPLES * 3 // 10),
    ("more", _EXAMPLES * 3 // 5),
    ("full", _EXAMPLES * 5),
):
    settings.register_profile(
        _name,
        deadline=None,
        derandomize=_name != "full",
        max_examples=_examples,
        suppress_health_check=[HealthCheck.too_slow],  # of a busy or an emulated machine
    )
settings.load_profile(USUAL)


def examples(usual: int) -> int:
    """Return how many examples the chosen profile tries of a test that usually tries so many."""
    return max(1, usual * settings().max_examples // _EXAMPLES)
