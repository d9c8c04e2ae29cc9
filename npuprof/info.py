"""Facts about a run besides its tables: where it ran, on what, how it was collected."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from npuprof.texts import encodable


class Selected(TypedDict, total=False):
    """The selected part of a run: step numbers, or bounds in UTC epoch nanoseconds."""

    steps: list[int]
    start_ns: int
    end_ns: int


@dataclass
class Info:
    """Facts about one run.

    Attributes
    ----------
    name
        The name that the user gave the run, or that of its directory.
    collector
        The front end that recorded it: ``acl``, ``torch_npu``, ``mindspore``, ``tensorflow``, ``msprof``,
        ``kineto``, ``simulator``; empty if unknown.
    reason
        Why that front end was chosen, in words; empty where it was asked for.
    source
        The format that was read, and whether it is raw or the vendor's parsed result.
    simulated
        Whether any of it comes from the embedded simulated NPU.
    emulated_ns
        Time of the computer that a simulated run does not count, because the NPU was emulated meanwhile.
    overhead
        What profiling took of this computer: ``start_ns`` and ``stop_ns`` of the collector, ``code_ns`` of the profiled
        code between them, ``written_bytes``, and, if it was measured, ``repeat_ns`` of the same code unprofiled.
    chip
        The chip's name, such as ``Ascend 910B``.
    rank, devices
        The global rank, when known, and the device ids with data.
    started_ns, stopped_ns
        UTC epoch nanoseconds between which data was collected.
    versions
        Software versions by name (``cann``, ``driver``, ``torch_npu``, ``python`` ...).
    options
        The options that the run was collected with, in the form of ``Options.to_dict``.
    environment
        Host name, operating system, CPU and what else the files say of the machine.
    metadata
        Metadata that the user attached with ``add_metadata``.
    recording
        The directory or file that was read.
    selection
        What of the run was asked for, empty for all of it: ``steps``, or ``start_ns`` and ``end_ns`` in UTC epoch
        nanoseconds. The other facts are those of the whole run.
    failed
        The exception of the profiled code, as ``Type: message``; empty when it ended normally.
    """

    name: str = ""
    collector: str = ""
    source: str = ""
    simulated: bool = False
    chip: str = ""
    rank: int | None = None
    devices: list[int] = field(default_factory=list)
    started_ns: int | None = None
    stopped_ns: int | None = None
    versions: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    recording: Path | None = None
    selection: Selected = field(default_factory=Selected)
    failed: str = ""
    reason: str = ""
    emulated_ns: int = 0
    overhead: dict[str, int] = field(default_factory=dict)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, encodable(value) if isinstance(value, str) else value)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-serializable values, which :mod:`npuprof.small_files` reads."""
        plain = asdict(self)
        plain["recording"] = None if self.recording is None else str(self.recording)
        return plain
