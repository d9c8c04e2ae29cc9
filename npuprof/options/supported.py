"""What can be asked of the front ends, in the forms of the frameworks' own questions."""

from __future__ import annotations

from npuprof.collectors import capabilities
from npuprof.collectors.registry import choose
from npuprof.options import AIC_METRICS, EXPORT_TYPES, LEVELS


def _front_end(collector: str) -> str:
    return choose("auto").collector.name if collector == "auto" else collector


def supported_activities(collector: str = "auto") -> set[str]:
    """Give the activities that a front end, or the one that this process would use, can watch."""
    return set(capabilities.ACTIVITIES[_front_end(collector)])


def supported_profiler_level(collector: str = "auto") -> set[str | int]:
    """Give the levels that a front end can collect at; a single one where it has none."""
    return {1} if capabilities.lacks(_front_end(collector), "level") else set(LEVELS)


def supported_ai_core_metrics(collector: str = "auto") -> set[str]:
    """Give the groups of AI Core metrics that a front end can count; the chip may have fewer."""
    return {"none"} if capabilities.lacks(_front_end(collector), "aic_metrics") else {*AIC_METRICS, "none"}


def supported_export_type(collector: str = "auto") -> set[str]:
    """Give what the vendor's parser can be asked to write; npuprof itself reads both and needs neither."""
    return set() if capabilities.lacks(_front_end(collector), "export_type") else set(EXPORT_TYPES)
