"""What the fuzzer damages, and how each is read: whole results by their readers, and each decoder by itself.

A load of a whole result builds every table, which takes a hundred times as long as to decode the bytes that were
damaged. So most inputs go to the decoders of files, fewer to the readers of whole results, and of these some go the
whole road: :func:`npuprof.load` and the report's summary.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from npuprof.dynamic import keys, requests
from npuprof.recordings.recording import Recording
from npuprof.sources import raw, saved
from npuprof.sources.database.connection import open_database
from npuprof.sources.files import archives
from npuprof.sources.framework.files import read_content
from npuprof.sources.framework.tlv import scan
from npuprof.sources.raw.records.slices import Streams
from npuprof.sources.recording import journal, python_stacks
from npuprof.sources.trace.columns import gather
from npuprof.sources.trace.events import read_events
from npuprof.tables.notes import Notes
from tests.campaign.fuzz import mutations, oracle, seeds
from tests.campaign.fuzz.oracle import Load, Outcome
from tests.sources.files.packing import SUFFIXES, pack
from tests.sources.mindspore import maker as mindspore
from tests.sources.raw.writers.chips import HwtsDirectory, V6Directory
from tests.sources.test_broken_input import FILES
from tests.sources.text.kinds import KINDS
from tests.sources.trace.maker import small_trace

_ROWS = 3
_RECORDS = {  # the type and the fixed bytes of a file's records, and the fields behind these
    "torch.op_range": (1, 58, (2, 3, 4, 8, 9)),
    "torch.op_mark": (2, 40, (1,)),
    "torch.memory_usage": (3, 77, ()),
    "torch.param_tensor_info": (5, 8, (1, 2)),
    "torch.python_tracer_hash": (4, 8, (1,)),
}
_STACKS: dict[str, list[Any]] = {
    "time_ns": [1, 2, 3, 4],
    "thread_id": [7, 7, 8, 7],
    "node": [0, 1, 2, -1],
    "line": [3, 6, 5, 0],
    "sample_ns": [2, 3, 4, 5],
    "stopped_ns": [9],
    "node_parent": [-1, 0, -1],
    "node_frame": [0, 1, 2],
    "frame_line": [3, 4, 5],
    **{name: ["train.py", "model.py", "loss.py"] for name in ("frame_file", "frame_function", "frame_module")},
}
_CHANGES: dict[str, dict[str, Any]] = {
    "torch_npu": {"start_step": 3, "npuprof": {"stacks": True}},
    "mindspore": {"start_step": 3, "stop_step": 5},
}


@dataclass(frozen=True)
class Case:
    """An input.

    Attributes
    ----------
    path
        What is loaded.
    load
        What reads it.
    road
        What reads it as users do, of some of the inputs; None where that is the same, or there is no such way.
    is_untold
        Whether the damage of one file is of a kind that nothing can tell: its name, and its bytes before and after.
    """

    path: Path
    load: Load
    road: Load | None = None
    is_untold: Callable[[str, bytes, bytes | None], bool] = mutations.is_untold


Cases = dict[str, Case]


@dataclass(frozen=True)
class Target:
    """A row of the fuzzer's table.

    Attributes
    ----------
    write
        What writes the sound inputs, each into a folder of its name below a given one.
    share
        How many of a thousand inputs it gets.
    """

    write: Callable[[Path], Cases]
    share: int


def _result(name: str) -> Callable[[Path], Cases]:
    def write(root: Path) -> Cases:
        case = Case(seeds.write(name, root / "result"), oracle.reader, oracle.road)
        if name in seeds.WITH_MANIFEST:  # so that each missing row can be told
            case = replace(case, is_untold=mutations.is_never_untold)
        return {"result": case}

    return write


def _single_files(root: Path) -> Cases:
    contents = {name: content for name, content in FILES.items() if not name.startswith("trace_view")}
    for number, kind in enumerate(KINDS):
        text = "\n".join([kind.head, *[kind.row] * _ROWS, ""]).encode()
        contents[f"{number}/{kind.module}.csv"] = text
        if number % 8 == 0:
            contents[f"{number}z/{kind.module}.csv.gz"] = gzip.compress(text, mtime=0)
    contents["info/profiler_info_2.json"] = json.dumps(mindspore.INFO).encode()
    contents["metadata/profiler_metadata.json"] = json.dumps(
        {"distributed_args": {"rank": 5, "world_size": 8}, "parallel_group_info": {"g": {"global_ranks": [0, 1]}}}
    ).encode()
    return _written(root, contents, Case(root, oracle.reader, oracle.road))


def _written(root: Path, contents: Mapping[str, bytes], like: Case) -> Cases:
    cases = {}
    for number, (name, content) in enumerate(contents.items()):
        path = root / str(number) / Path(name).name
        path.parent.mkdir()
        path.write_bytes(content)
        cases[str(number)] = replace(like, path=path)
    return cases


def _small_files(root: Path) -> Cases:
    recorded, stored = root / "recording", root / "saved"
    recorded.mkdir()
    with tempfile.TemporaryDirectory() as name:
        recording = seeds.write("recording", Path(name)) / "recording.json"
        (recorded / recording.name).write_bytes(recording.read_bytes())
    with tempfile.TemporaryDirectory() as name:
        profile = seeds.write("saved", Path(name)) / saved.FILE_NAME
        stored.mkdir()
        (stored / profile.name).write_bytes(profile.read_bytes())
    cases = {"recording": Case(recorded, _recording), "saved": Case(stored, _described)}
    for dialect in keys.DIALECTS:
        path = root / dialect / requests.FILE_NAME
        path.parent.mkdir()
        path.write_text(json.dumps(keys.template(dialect) | _CHANGES[dialect]))
        path.chmod(0o600)
        cases[dialect] = Case(path, _configured)
    return cases


def _recording(path: Path) -> Outcome:
    Recording.read(path)
    return Outcome({})


def _described(path: Path) -> Outcome:
    saved.describe(path)
    return Outcome({})


def _configured(path: Path) -> Outcome:
    told: list[str] = []
    requests.understand(requests.read_file(path)[0], warn=told.append)
    return Outcome({})


def _journals(root: Path) -> Cases:
    told = [["start", 5], ["step", 0, 5, 9], ["mark", "a mark", "mine", 7, 6, 8], ["fact", "rate", 1.5]]
    texts = {
        "journal": "".join(f"{json.dumps(line)}\n" for line in told * _ROWS),
        "stacks": f"{json.dumps(_STACKS)}\n",
    }
    cases = {}
    for name, load in (("journal", read_journal), ("stacks", _stacks_journal), ("parquet", _stacks)):
        path = root / name / "file"
        path.parent.mkdir()
        if name in texts:
            path.write_text(texts[name])
        else:
            types = {column: pa.list_(pa.type_for_alias(kind)) for column, kind in python_stacks._COLUMNS.items()}
            columns = {column: pa.array([_STACKS[column]], type=kind) for column, kind in types.items()}
            pq.write_table(pa.table(columns), path)
        cases[name] = Case(path, load, is_untold=mutations.has_other_length)
    return cases


def read_journal(path: Path) -> Outcome:
    if not path.is_file():  # its reader looks first
        return Outcome(None)
    told = journal.read(path)
    rows = {"steps": len(told.steps), "marks": len(told.marks), "facts": len(told.metadata)}
    return Outcome(rows, frozenset({("warning", "damaged", told.damaged)} if told.damaged else ()))


def _stacks_journal(path: Path) -> Outcome:
    notes = Notes()
    python_stacks.read_journal(path, notes)  # what is sampled less often gives fewer calls
    return oracle.decoder({}, notes)


def _stacks(path: Path) -> Outcome:
    notes = Notes()
    python_stacks.read(path, notes)
    return oracle.decoder({}, notes)


def _archives(root: Path) -> Cases:
    cases = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "run"
        (folder / "data").mkdir(parents=True)
        for number, content in enumerate((b"Name,Count\nAdd,3\n", b"\x5a" * 300, b"{}")):
            (folder / "data" / f"{number}.csv").write_bytes(content)
        for suffix in SUFFIXES:
            (root / suffix[1:]).mkdir()
            path = pack(folder, root / suffix[1:] / f"run{suffix}", "run/")
            is_untold = mutations.has_other_length if suffix == ".tar" else mutations.is_untold
            cases[suffix[1:]] = Case(path, _unpacked, is_untold=is_untold)  # whole members of a tar may be gone
    return cases


def _unpacked(path: Path) -> Outcome:
    unpacked = archives.unpack(path)
    try:
        files = sum(one.is_file() for one in unpacked.folder.rglob("*"))
        return Outcome({"files": files}, frozenset(("warning", one, 1) for one in unpacked.left_out))
    finally:
        unpacked.remove()


def _database_tables(root: Path) -> Cases:
    cases = {}
    for name in ("database", "cluster database"):
        cases[name] = Case(seeds.write(name, root / name), _tables)
    return cases


def _tables(path: Path) -> Outcome:
    notes = Notes()
    with open_database(path, notes) as database:
        rows = {
            table: len(next(iter(database.rows(table, list(columns)).values()), ()))
            for table, columns in database.tables.items()
        }
        for table, columns in database.tables.items():
            database.records(table, list(columns), limit=1000)
        warnings = [("warning", f"{table} is no table", 1) for table in database.unread]
    return Outcome(rows, oracle.decoder({}, notes).warnings | {*warnings})


def _events(root: Path) -> Cases:
    contents = {"trace_view.json": json.dumps(small_trace().events).encode()}
    contents["wrapped.json"] = json.dumps({"traceEvents": small_trace().events, "schemaVersion": 1}, indent=1).encode()
    contents["gz.json.gz"] = gzip.compress(contents["trace_view.json"], mtime=0)
    contents["kineto.json"] = seeds.write("kineto", root / "seed").read_bytes()
    return _written(root, contents, Case(root, _gathered))


def _gathered(path: Path) -> Outcome:
    notes = Notes()
    trace = gather(read_events(path, notes), notes, path.name)
    return oracle.decoder({"events": trace.events}, notes)


def _framework_records(root: Path) -> Cases:
    cases = {}
    for source in seeds.write("framework", root / "seed").rglob("torch.*"):
        if source.name in _RECORDS:
            path = root / source.name / source.name
            path.parent.mkdir()
            path.write_bytes(source.read_bytes())
            cases[source.name] = Case(path, _scanned, is_untold=mutations.has_other_length)
    return cases


def _scanned(path: Path) -> Outcome:
    kind, fixed, fields = _RECORDS[path.name]
    notes = Notes()
    content = read_content(path.parent, path.name, notes)
    if content is None:
        return oracle.decoder({}, notes)
    records = scan(content, kind, fixed, notes, path.name)
    records.fields(fields, notes, path.name)
    for offset in range(0, fixed - 8, 8):
        records.column(offset, "<i8")
    return oracle.decoder({"records": len(records.start)}, notes)


def _raw_results(root: Path) -> Cases:
    """Write a directory of each family of chips, with one of each record that the tests can write."""
    cases = {}
    for name, kind in (("hwts", HwtsDirectory), ("v6", V6Directory)):
        (root / name).mkdir()
        directory = kind(root / name / "PROF_1")
        directory.write_one_of_each()
        cases[name] = Case(directory.finish(), oracle.reader, oracle.road)
    return cases


def _raw_streams(root: Path) -> Cases:
    cases = {name: replace(case, load=_streamed(case.path), road=None) for name, case in _raw_results(root).items()}
    for name in ("raw", "raw collectives"):
        path = seeds.write(name, root / name)
        cases[name] = Case(path, _streamed(path))
    return {name: replace(case, is_untold=mutations.has_other_length) for name, case in cases.items()}


def _streamed(path: Path) -> Load:
    """Return what reads the streams of a raw directory that its reader reads, in the same layouts."""
    asked: dict[Path, dict[str, np.dtype[Any]]] = {}
    plain_init, plain_read = Streams.__init__, Streams.read

    def init(self: Any, folder: Path | None, notes: Notes, label: str) -> None:
        plain_init(self, folder, notes, label)
        self.asked = asked.setdefault(folder, {}) if folder else {}

    def read(self: Any, name: str, record: np.dtype[Any]) -> Any:
        records = plain_read(self, name, record)
        if len(records):
            self.asked[name] = record
        return records

    Streams.__init__, Streams.read = init, read  # type: ignore[method-assign]
    try:
        raw.read(path)
    finally:
        Streams.__init__, Streams.read = plain_init, plain_read  # type: ignore[method-assign]

    def load(_: Path) -> Outcome:
        notes = Notes()
        rows: dict[str, int] = {}
        for folder, records in asked.items():
            streams = Streams(folder, notes, folder.parent.name)
            rows |= {f"{folder.parent.name}/{name}": len(streams.read(name, one)) for name, one in records.items()}
        return oracle.decoder(rows, notes)

    return load


def _control_files(root: Path) -> Cases:
    cases = {}
    for name in ("raw", "raw collectives"):
        path = seeds.write(name, root / name)
        for data in path.glob("*/data/*"):
            data.unlink()
        cases[name] = Case(path, _told)
    return cases


def _told(path: Path) -> Outcome:
    raw.describe(path)
    return Outcome({})


TARGETS: Mapping[str, Target] = {
    "single files": Target(_single_files, 100),
    **{name: Target(_result(name), 2) for name in seeds.SEEDS},
    "raw data of chips": Target(_raw_results, 4),
    "database tables": Target(_database_tables, 60),
    "streams of raw data": Target(_raw_streams, 120),
    "events of timelines": Target(_events, 80),
    "archives": Target(_archives, 80),
    "control files": Target(_control_files, 70),
    "journals": Target(_journals, 130),
    "small files": Target(_small_files, 180),
    "records of frameworks": Target(_framework_records, 150),
}
"""What is damaged, by name, the longest first; their shares are of about a thousand."""


@cache
def total_share() -> int:
    """Return the sum of all shares."""
    return sum(target.share for target in TARGETS.values())
