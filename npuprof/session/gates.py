"""Gates over the runs of this process: ``last <= best * 1.05``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from npuprof.errors import SessionError, SourceError
from npuprof.session.history import EndedRun, ended_runs
from npuprof.session.mixins import last

if TYPE_CHECKING:
    from npuprof.advice.gate import CheckedComparison
    from npuprof.profiles.profile import Profile


def require(text: str, *, confident: bool = False) -> list[CheckedComparison]:
    """Check a gate against the newest finished run."""
    from npuprof.advice import gate

    newest = last()
    advice = newest.advice()
    if not advice.step_ns:
        place = getattr(newest.info, "recording", None) or "the last run"  # a set has many
        raise SessionError(
            f"{place} has no step and no device time, so there is nothing to check: "
            "profile the NPU too (--activities cpu,npu)"
        )
    names = gate.figures(advice)
    names["last"] = names["best"] = names["step"]
    if re.search(r"\bbest\b", text):
        profiles = {str(number): profile for number, profile in enumerate(map(_profile, ended_runs())) if profile}
        others = {number: run.advice() for number, run in profiles.items() if run is not newest}
        steps = [gate.figures(other, number)["step"] for number, other in others.items() if other.step_ns]
        names["best"] = min([names["step"], *steps], key=lambda step: step.ns)
    return gate.require(text, names, confident=confident, doubts=advice.doubts)


def _profile(run: EndedRun) -> Profile | None:
    """Return the profile of a run, read again if it is no longer referenced; None if it cannot be read."""
    from npuprof.loading import open_path
    from npuprof.profiles.profile import Profile

    if run.profile is not None:
        return run.profile
    try:
        read = open_path(run.directory)
    except (SourceError, OSError):
        return None
    return read if isinstance(read, Profile) else None
