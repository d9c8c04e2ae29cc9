"""A folder of result files copied out of their result: of ``msprof --export``, torch_npu or MindSpore.

Source: sources/RESULTS.md sections 1.1 to 1.3.
"""

from __future__ import annotations

from pathlib import Path

from npuprof.errors import SourceError
from npuprof.sources.base import Decoded, Source
from npuprof.sources.msprof.export import MsprofReading
from npuprof.sources.msprof.layout import find_files
from npuprof.sources.result_folder.layout import find_files as find_torch_files
from npuprof.sources.torch_npu.result import TextResultReading


def recognises(path: Path) -> bool:
    """Return whether `path` is a directory that directly contains exported files."""
    return find_files(path) is not None or find_torch_files(path) is not None


def read(path: Path) -> Decoded:
    """Read the newest export among the files."""
    if (layout := find_files(path)) is not None:
        return MsprofReading(layout).run()
    copied = find_torch_files(path)
    if copied is None:
        raise SourceError(f"{path} holds no file that a profiler exported; give the directory of a result")
    decoded = TextResultReading(copied).run()
    if copied.profiler_info is None and not len(decoded.tables.get("operators", ())):
        if decoded.info.collector == "torch_npu":
            decoded.info.collector = ""  # MindSpore uses the same file names
        decoded.info.source = "folder of result files"
    return decoded


SOURCE = Source("folder_of_files", (None, "parsed", "text"), recognises, read, only_given=True)
