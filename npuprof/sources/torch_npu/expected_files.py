"""The files that a result must have by the options of its run, or by the files beside them, and that are missing.

Source: sources/RESULTS.md sections 0, 1.1, 1.2 and 4.
"""

from __future__ import annotations

from collections.abc import Iterator

from npuprof.info import Info
from npuprof.notes import Notes
from npuprof.sources.framework.mindspore import COLLECTOR as MINDSPORE
from npuprof.sources.result_folder.layout import OUTPUT, Layout

_DONE = "analyse.done"
_COMMUNICATION = ("communication.json", "communication_matrix.json")
_MEMORY = ("memory_record.csv", "operator_memory.csv")
_WITH = {
    **dict.fromkeys(_COMMUNICATION, _COMMUNICATION),
    **dict.fromkeys(_MEMORY, _MEMORY),
    "op_statistic.csv": ("kernel_details.csv",),
}  # what is written together with a file


def note_missing(layout: Layout, info: Info, notes: Notes, *, communicates: bool) -> None:
    """Warn of files that the result was to have.

    `communicates` tells whether its other files show communication operators.
    """
    if layout.output is None:
        return
    due = {name for one, names in _WITH.items() if layout.file(one) is not None for name in names}
    due.update(_asked(info, communicates=communicates))
    missing = sorted(name for name in due if layout.file(name) is None)
    if missing:
        # Only releases that name themselves write the mark.
        is_unended = "torch_npu" in info.versions and layout.file(_DONE) is None
        ended = f"; there is no {_DONE}, so the analysis may not have ended" if is_unended else ""
        told = f"missing, though the run's options or other files show that they were due: {', '.join(missing)}{ended}"
        notes.warning(layout.output.name or OUTPUT, told, len(missing))


def _asked(info: Info, *, communicates: bool) -> Iterator[str]:
    """Iterate over the files that the run's options ask for; none where they are not known."""
    options, level = info.options, info.options.get("level")
    exported = options.get("export_type") or "text"
    if not options or "text" not in (exported if isinstance(exported, list) else [exported]):
        return
    activities = options.get("activities", ())
    if options.get("memory"):
        yield from _MEMORY
    if options.get("shapes") if info.collector == MINDSPORE else "cpu" in activities:
        yield "operator_details.csv"
    if "npu" not in activities or level == "none":
        return
    yield from ("kernel_details.csv", "step_trace_time.csv")
    if options.get("l2"):
        yield "l2_cache.csv"
    if level in (1, 2):
        yield from ("op_statistic.csv", "api_statistic.csv", *(["npu_module_mem.csv"] if options.get("memory") else []))
        if communicates:
            yield from _COMMUNICATION
