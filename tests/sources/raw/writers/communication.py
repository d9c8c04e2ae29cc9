"""Records of communication, operator memory and graphs, added to the raw directories that tests write."""

from __future__ import annotations

import struct
from pathlib import Path

from tests.sources.raw.writers.directory import HOST_COUNTER, RawDirectory

NONE = 0xFFFFFFFF
NOTIFY, MEMCPY = 15, 5
MASTER, SLAVE = 0x010001, 0x010002


class CommunicationDirectory(RawDirectory):
    """A ``PROF_*`` directory whose processes talk to others. Stamps are as in `RawDirectory`."""

    def finish(self) -> Path:
        path = super().finish()
        types = "10000_131073:hcom_allReduce_\n10000_131074:hcom_send_\n5500_65537:master\n5500_65538:slave\n"
        (path / "host/data/unaging.additional.type_info_dic.slice_1").write_text(types)
        return path

    def collective(self, begin: int, end: int, name: str = "hcom_allReduce_", kind: int = 131073) -> None:
        """The node-level call that holds the steps of one operator."""
        self.api(10000, kind, begin, end, item=name)

    def communicate(
        self,
        at: int,
        name: str,
        stream: int,
        task: int,
        *,
        on: int = MASTER,
        device: int = 0,
        info: bool = True,
        **fields: int,
    ) -> None:
        """A step's call from `at` on for 10 ticks, with its launch and its description."""
        self.api(5500, on, at, at + 10, item=name)
        self.track(at + 5, stream, task, NOTIFY, device=device)
        if info:
            self.info(at + 7, name, **fields)

    def info(self, stamp: int, name: str, **fields: int) -> None:
        of = {"group": 0, "local": 0, "remote": 1, "ranks": 8, "plane": 0, "context": NONE, "notify": 77}
        of |= {"size": 0, "dtype": 4, "link": 1, "transport": 0, "rdma": NONE} | fields
        ranks = (of["local"], of["remote"], of["ranks"], 0, of["plane"], of["context"])
        body = struct.pack("<3Q6I", self.hash_of(name), 0, of["group"], *ranks)
        body += struct.pack("<QIId3Q", of["notify"], 0, 0, 12.5, 1, 2, of["size"])
        body += struct.pack("<5I", 0, of["dtype"], of["link"], of["transport"], of["rdma"])
        self._host("aging.additional.hccl_info", 5500, 1, stamp, 7, 232, body)

    def operator(self, stamp: int, group: int, *, flags: int = 0, dtype: int = 3, count: int = 1024) -> None:
        body = struct.pack("<BBQQQ", flags, dtype, self.hash_of("MESH-RING"), count, group)
        self._host("aging.compact.hccl_op_info", 10000, 10, stamp, 7, 26, body)

    def step_contexts(self, stamp: int, first: int, last: int) -> None:
        body = struct.pack("<Q3I", self.hash_of("hcom"), 2, first, last)
        self._host("aging.additional.context_id_info", 5500, 4, stamp, 7, 232, body)

    def memory(
        self, stamp: int, address: int, size: int, *, name: str = "Add_0", held: int = 0, device: int = 0
    ) -> None:
        body = struct.pack("<QqQQQII", address, size, self.hash_of(name), held, 1 << 30, device, 20)
        self._host("aging.additional.task_memory_info", 10000, 6, stamp, 7, 232, body)

    def planned(self, stamp: int, name: str, size: int, first: int, last: int) -> None:
        body = struct.pack("<qQQQQQI", size, self.hash_of(name), first, last, 1 << 20, self.hash_of("net"), 3)
        self._host("unaging.additional.static_op_mem", 10000, 11, stamp, 7, 232, body)

    def fused(self, stamp: int, name: str, *parts: str, memory: tuple[int, ...]) -> None:
        body = struct.pack("<QI5Q", self.hash_of(name), len(parts), *memory)
        body += struct.pack(f"<{len(parts)}Q", *map(self.hash_of, parts))
        self._host("unaging.additional.fusion_op_info", 10000, 2, stamp, 7, 232, body)

    def load_model(self, begin: int, end: int, model: int) -> None:
        """A model-level call, which comes as a pair of events."""
        for stamp in (begin, end):
            stamps = (HOST_COUNTER + stamp, (1 << 64) - 1)
            self.streams["host/data/aging.api_event.data"] += struct.pack(
                "<HHIIIQQQ", 0x5A5A, 15000, 2, 7, 1, *stamps, model
            )

    def graph(self, stamp: int, name: str, graph: int, model: int) -> None:
        body = struct.pack("<QII", self.hash_of(name), graph, model)
        self._host("unaging.additional.graph_id_map", 15000, 0, stamp, 7, 232, body)

    def attributes(self, stamp: int, name: str, text: str) -> None:
        body = struct.pack("<QIQ", self.hash_of(name), 0, self.hash_of(text))
        self._host("aging.compact.node_attr_info", 10000, 9, stamp, 7, 20, body)

    def write_one_of_each(self) -> None:
        """Write a run with all of this: two executions of a graph's operator, one inside one task, and memory."""
        self.launch(0, "Conv", 3, 0)
        self.attributes(42, "Conv", "pads=1,1")
        for number in range(2):
            at = 200 * number
            self.collective(at, at + 90)
            self.communicate(at + 10, "Memcpy", 4, 2 * number, size=4096, group=7)
            self.communicate(at + 30, "RDMASend", 5, 2 * number, on=SLAVE, rdma=1, size=8, plane=1)
            self.operator(at + 80, 13_339)
            for turn in range(2):
                start = 1000 + 200 * number + 50 * turn
                self.task(start, start + 10, 4, 2 * number, sqe=11)
                self.task(start + 5, start + 20, 5, 2 * number, sqe=16)
        self.collective(400, 490, "hcom_send_", 131074)
        self.api(5500, MASTER, 410, 470, item="hcom")
        self.track(420, 6, 0, 52)
        self.step_contexts(430, 0, 2)
        self.task(2000, 2100, 6, 0, sqe=0)
        for context in range(4):
            self.info(440 + context, "Memcpy", context=context)
            self.part(2010 + context, 2020 + context, 6, 0, context, 8)
        self.load_model(500, 600, 7)
        self.graph(510, "net", 1, 7)
        self.fused(520, "ConvAdd", "Conv", "Add", memory=(1, 2, 3, 4, 5))
        self.planned(530, "Conv", 64, 0, 3)
        for stamp, size in ((700, 64), (710, -64), (720, 64)):
            self.memory(stamp, 512, size)
