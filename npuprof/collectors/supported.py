"""What can be asked of the front ends, in the forms of the frameworks' own questions."""

from __future__ import annotations

from npuprof.collectors.registry import choose
from npuprof.options import SPECIFICATION, has_value, lacks


def _supported(option: str, collector: str) -> set[str | int]:
    name = choose("auto").collector.name if collector == "auto" else collector
    values = SPECIFICATION[option].choices
    return set() if lacks(name, option) else {value for value in values if has_value(name, option, value)}


def supported_activities(collector: str = "auto") -> set[str]:
    """Return the activities that a front end, or the one that this process would use, can watch."""
    return set(map(str, _supported("activities", collector)))


def supported_profiler_level(collector: str = "auto") -> set[str | int]:
    """Return the levels that a front end can collect at; a single one where it has none."""
    return _supported("level", collector) or {SPECIFICATION["level"].usual}


def supported_ai_core_metrics(collector: str = "auto") -> set[str]:
    """Return the groups of AI Core metrics that a front end can count; the chip may have fewer."""
    return {*map(str, _supported("aic_metrics", collector)), "none"}


def supported_export_type(collector: str = "auto") -> set[str]:
    """Return what the vendor's parser can be asked to write; npuprof itself reads both and needs neither."""
    return set(map(str, _supported("export_type", collector)))
