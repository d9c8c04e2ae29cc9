"""Results of several kinds, and archives of them."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from npuprof.sources.files.archives import Unpacked
from tests.sources.database.maker import framework_database
from tests.sources.msprof.results import result
from tests.sources.raw.writers.directory import RawDirectory
from tests.sources.trace.maker import small_trace

SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz")


def torch_result(root: Path, rank: int = 0) -> Path:
    """Write a result of torch_npu."""
    output = root / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    small_trace().write(output / "trace_view.json")
    (root / f"profiler_info_{rank}.json").write_text("{}")
    return root


def raw_data(root: Path) -> Path:
    """Write raw data with one kernel."""
    directory = RawDirectory(root)
    directory.launch(0, "MatMul", 3, 0)
    return directory.finish()


def database_result(root: Path) -> Path:
    """Write a result in a database."""
    root.mkdir()
    framework_database(root / "msprof_20260821120000.db")
    return root


def host_only(root: Path) -> Path:
    """Write raw data of a host alone."""
    directory = RawDirectory(root, devices=0)
    directory.api(20000, 1, 0, 50)
    return directory.finish()


def loose_result(root: Path) -> Path:
    """Write a folder with nothing but a timeline."""
    root.mkdir()
    small_trace().write(root / "trace_view.json")
    return root


RUNS: dict[str, Callable[[Path], Path]] = {
    "torch_npu": torch_result,
    "msprof": result,
    "raw": raw_data,
    "host": host_only,
    "database": database_result,
    "loose": loose_result,
}


def pack(folder: Path, target: Path, prefix: str = "") -> Path:
    """Pack a folder: its content, below a prefix of names."""
    if target.suffix == ".zip":
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(folder.rglob("*")):
                archive.write(file, prefix + str(file.relative_to(folder)))
    else:
        with tarfile.open(target, "w" if target.suffix == ".tar" else "w:gz") as archive:
            for file in sorted(folder.rglob("*")):
                archive.add(file, prefix + str(file.relative_to(folder)), recursive=False)
    return target


def zip_of(path: Path, members: dict[str, bytes]) -> Path:
    """Write a zip of these files."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def tar_of(path: Path, *infos: tuple[tarfile.TarInfo, bytes]) -> Path:
    """Write a compressed tar of these members."""
    with tarfile.open(path, "w:gz") as archive:
        for info, content in infos:
            archive.addfile(info, io.BytesIO(content))
    return path


def files_of(unpacked: Unpacked) -> dict[str, bytes]:
    """Return the files that were unpacked."""
    found = (file for file in unpacked.folder.rglob("*") if file.is_file())
    return {str(file.relative_to(unpacked.folder)): file.read_bytes() for file in found}


def member(
    name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = ""
) -> tuple[tarfile.TarInfo, bytes]:
    """Build a member of a tar."""
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = len(content), kind, link
    return info, content


def patch(path: Path, in_member: int, in_list: int, bits: int) -> None:
    """Flip bits at these places of every header of a zip: of each member, and of each entry of its list."""
    content = bytearray(path.read_bytes())
    for start, place in ((b"PK\x03\x04", in_member), (b"PK\x01\x02", in_list)):
        at = -1
        while (at := content.find(start, at + 1)) >= 0:
            content[at + place] ^= bits
    path.write_bytes(content)
