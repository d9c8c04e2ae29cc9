"""The timeline as Perfetto's own protobuf, with absolute times in whole nanoseconds.

The tracks, slices, counters and arrows are those of the Chrome trace; packets are made by Perfetto's Python library.

Source: Perfetto's page "Converting arbitrary timestamped data to Perfetto", and its protos.
"""

from __future__ import annotations

import importlib.util
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, BinaryIO, TypeAlias

from npuprof.errors import NpuprofError
from npuprof.exports import chrome_trace
from npuprof.exports.nesting import begins_and_ends
from npuprof.sources.exported_trace.layout import KERNEL, ROW, SERIES
from npuprof.tables.info import Info

_Track: TypeAlias = tuple[int, int | str]
_ROOT = 1
_SEQUENCE = 1


def write(out: BinaryIO, runs: Sequence[chrome_trace.TracedRun], info: Info) -> int:
    """Write a run, or several ranks; return the number of packets."""
    if importlib.util.find_spec("perfetto") is None:
        raise NpuprofError("Perfetto's library is needed for its own format: pip install 'npuprof[perfetto]'")
    base_ns, events = chrome_trace.events(runs)
    packets = _Packets(out, base_ns, f"{info.name or 'npuprof'}{' (simulated NPU)' * info.simulated}")
    for text in events:
        packets.add(json.loads(text, parse_float=Decimal))
    packets.finish()
    return packets.count


class _Packets:
    """Converts events of a Chrome trace into packets; slices are kept until :meth:`finish`, as arrows follow them."""

    def __init__(self, out: BinaryIO, base_ns: int, title: str) -> None:
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2

        self.count = 0
        self._out = out
        self._base_ns = base_ns
        self._protos: Any = perfetto_trace_pb2
        self._numbers: dict[_Track, int] = {}
        self._names: dict[_Track, str] = {}
        self._orders: dict[_Track, int] = {}
        self._slices: dict[_Track, list[tuple[int, int, dict[str, Any]]]] = defaultdict(list)
        self._arrows: dict[str, dict[tuple[_Track, int], list[int]]] = {"s": defaultdict(list), "f": defaultdict(list)}
        self._describe(_ROOT, title, None, 0)

    def add(self, event: dict[str, Any]) -> None:
        """Add an event; counter samples are written immediately."""
        kind, pid, tid = event["ph"], event["pid"], event["tid"]
        if kind == "M":
            if event["name"] == SERIES:
                return
            track = (pid, "") if event["name"].startswith("process") else (pid, tid)
            is_name = event["name"].endswith("_name")
            target: dict[_Track, Any] = self._names if is_name else self._orders
            target[track] = event["args"]["name" if is_name else "sort_index"]
        elif kind == "X":
            start_ns = self._ns(event["ts"])
            self._slices[pid, tid].append((start_ns, start_ns + int(event["dur"] * 1000), event))
        elif kind in self._arrows:
            self._arrows[kind][(pid, tid), self._ns(event["ts"])].append(event["id"] + 1)  # 0 means no flow
        else:
            for key, value in event["args"].items():
                self._sample((pid, f"{event['name']} {key}"), self._ns(event["ts"]), value)

    def finish(self) -> None:
        """Write the slices of each track in nesting order."""
        for track, slices in self._slices.items():
            number = self._track(track)
            slices.sort(key=lambda bounds: (bounds[0], -bounds[1]))
            for time_ns, event, is_end in begins_and_ends(slices):
                if is_end:
                    self._event(number, time_ns, self._protos.TrackEvent.TYPE_SLICE_END)
                else:
                    self._begin(track, number, time_ns, event)

    def _begin(self, track: _Track, number: int, time_ns: int, event: Mapping[str, Any]) -> None:
        packet = self._packet(time_ns)
        begun = packet.track_event
        begun.type, begun.track_uuid = self._protos.TrackEvent.TYPE_SLICE_BEGIN, number
        begun.name = event["name"]
        begun.categories.append(event["cat"])
        begun.flow_ids.extend(self._arrows["s"].pop((track, time_ns), ()))  # the outermost slice that begins now
        begun.terminating_flow_ids.extend(self._arrows["f"].pop((track, time_ns), ()))
        arguments = {name: value for name, value in event["args"].items() if name not in (ROW, KERNEL)}
        kernel = {f"{KERNEL}.{name}": value for name, value in event["args"].get(KERNEL, {}).items() if name != ROW}
        for name, value in {**arguments, **kernel}.items():
            annotation = begun.debug_annotations.add(name=name)
            if isinstance(value, bool):
                annotation.bool_value = value
            elif isinstance(value, int) and abs(value) < 1 << 63:
                annotation.int_value = value
            elif isinstance(value, Decimal):
                annotation.double_value = float(value)
            else:
                annotation.string_value = str(value)
        self._write(packet)

    def _sample(self, track: _Track, time_ns: int, value: int | Decimal) -> None:
        number = self._numbers.get(track) or self._track(track, counter=True)
        packet = self._event(number, time_ns, self._protos.TrackEvent.TYPE_COUNTER, write=False)
        if isinstance(value, int) and abs(value) < 1 << 63:
            packet.track_event.counter_value = value
        else:
            packet.track_event.double_counter_value = float(value)
        self._write(packet)

    def _event(self, number: int, time_ns: int, kind: int, *, write: bool = True) -> Any:
        packet = self._packet(time_ns)
        packet.track_event.type, packet.track_event.track_uuid = kind, number
        if write:
            self._write(packet)
        return packet

    def _track(self, track: _Track, *, counter: bool = False) -> int:
        """Return the number of a track, and write its description, a child of its process, before its first event."""
        if track not in self._numbers:
            pid, thread = track
            parent = _ROOT if thread == "" else self._track((pid, ""))
            self._numbers[track] = number = len(self._numbers) + _ROOT + 1
            name = str(thread) if counter else self._names.get(track, str(pid))
            self._describe(number, name, parent, self._orders.get(track, pid if thread == "" else 0), counter=counter)
        return self._numbers[track]

    def _describe(self, number: int, name: str, parent: int | None, order: int, *, counter: bool = False) -> None:
        packet = self._protos.TracePacket(trusted_packet_sequence_id=_SEQUENCE)
        packet.track_descriptor.uuid, packet.track_descriptor.name = number, name
        packet.track_descriptor.sibling_order_rank = order
        packet.track_descriptor.child_ordering = self._protos.TrackDescriptor.EXPLICIT
        if parent is not None:
            packet.track_descriptor.parent_uuid = parent
        if counter:
            packet.track_descriptor.counter.SetInParent()
        self._write(packet)

    def _packet(self, time_ns: int) -> Any:
        return self._protos.TracePacket(timestamp=max(time_ns, 0), trusted_packet_sequence_id=_SEQUENCE)

    def _write(self, packet: Any) -> None:
        self.count += 1
        self._out.write(self._protos.Trace(packet=[packet]).SerializeToString())  # concatenated traces are one trace

    def _ns(self, ts: int | Decimal) -> int:
        return self._base_ns + int(ts * 1000)
