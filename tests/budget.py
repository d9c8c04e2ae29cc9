"""How many examples property tests try.

``--hypothesis-profile`` chooses: ``fast`` (as ``-m "not slow"`` does by itself), ``default`` or ``full``. The first two
try the same examples in every run; ``full`` tries many, and others each time.
"""

from __future__ import annotations

from hypothesis import settings

USUAL = "default"
_EXAMPLES = 100

settings.register_profile("fast", deadline=None, derandomize=True, max_examples=_EXAMPLES // 5)
settings.register_profile(USUAL, deadline=None, derandomize=True, max_examples=_EXAMPLES)
settings.register_profile("full", deadline=None, max_examples=_EXAMPLES * 5)
settings.load_profile(USUAL)


def examples(usual: int) -> int:
    """Return how many examples the chosen profile tries of a test that usually tries so many."""
    return max(1, usual * settings().max_examples // _EXAMPLES)
