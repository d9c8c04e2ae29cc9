"""The folder of samples is made from clones of public repositories, and holds what was published there."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import pace
from tests.samples import read_manifest
from tests.samples.__main__ import main
from tests.samples.partial import PartialFolder

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

_TRACE, _TABLE = b'{"traceEvents": []}\r\n', b"Step,Computing\n1,2.5\n"
_ADDRESS = "https://example.org/owner/name.git"


def _git(folder: Path, *arguments: str, sent: bytes = b"") -> str:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", *identity, "-C", str(folder), *arguments]
    done = subprocess.run(
        command, input=sent, capture_output=True, env=environment, timeout=pace.seconds(60), check=True
    )
    return done.stdout.decode().strip()


def _commit(clone: Path, files: dict[str, bytes]) -> str:
    """Commit files, and nothing else, in a clone, which is made if there is none; the working tree has none of them."""
    if not clone.exists():
        clone.mkdir(parents=True)
        _git(clone, "init", "-q")
    _git(clone, "read-tree", "--empty")
    for path, content in files.items():
        blob = _git(clone, "hash-object", "-w", "--stdin", sent=content)
        _git(clone, "update-index", "--add", "--cacheinfo", f"100644,{blob},{path}")
    tree = _git(clone, "write-tree")
    commit = _git(clone, "commit-tree", tree, "-m", "files")
    _git(clone, "update-ref", "HEAD", commit)
    return commit


def _entry(path: str, content: bytes, **other: Any) -> dict[str, Any]:
    return {
        "path": path,
        "repository": "one",
        "commit": "1" * 40,
        "source": f"data/{path}",
        "bytes": len(content),
        "blob": hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest(),
        "sha256": hashlib.sha256(content).hexdigest(),
    } | other


class Scene:
    """A folder of clones, a manifest, and the folder of samples to make."""

    def __init__(self, folder: Path) -> None:
        self.clones, self.target, self._manifest = folder / "clones", folder / "samples", folder / "manifest.json"
        self.clones.mkdir()

    def run(self, *entries: dict[str, Any]) -> int:
        repository = {"name": "owner/name", "licence": "MIT", "address": _ADDRESS, "note": ""}
        content = {
            "repositories": {"one": repository},
            "made": {"raw/own": {"how": "by hand", "needed_by": "some"}},
            "files": entries,
        }
        self._manifest.write_text(json.dumps(content))
        return main([str(self.clones), "--to", str(self.target), "--manifest", str(self._manifest)])

    def files(self) -> dict[str, bytes]:
        found = (path for path in self.target.rglob("*") if path.is_file())
        return {str(path.relative_to(self.target)): path.read_bytes() for path in found}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_files_of_any_commit_of_any_clone_are_written(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    _commit(scene.clones / "owner" / "name", {"data/a/trace.json": _TRACE})
    _commit(scene.clones / "owner" / "name", {"README": b"the trace is gone"})
    bare = scene.clones / "other.git"
    _commit(scene.clones / "worked in", {"anywhere.csv": _TABLE})
    _git(scene.clones, "clone", "-q", "--bare", str(scene.clones / "worked in"), str(bare))
    shutil.rmtree(scene.clones / "worked in")
    entries = [_entry("a/trace.json", _TRACE), _entry("b/table.csv", _TABLE), _entry("c/same.csv", _TABLE)]
    assert scene.run(*entries) == 0
    assert scene.files() == {"a/trace.json": _TRACE, "b/table.csv": _TABLE, "c/same.csv": _TABLE}
    assert "3 published files: 3 written, 0 already there, 0 missing, 0 refused" in capsys.readouterr().out
    assert (scene.target / "a" / "trace.json").stat().st_mode & 0o077 == 0
    assert scene.run(*entries) == 0
    assert "0 written, 3 already there" in capsys.readouterr().out


def test_missing_data_names_fetching_commands(scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    published = tmp_path / "published"
    commits = [_commit(published, {"data/a.json": _TRACE}), _commit(published, {"data/b.csv": _TABLE})]
    _git(published, "config", "uploadpack.allowAnySHA1InWant", "true")
    entries = [_entry("x/a.json", _TRACE, commit=commits[0]), _entry("x/b.csv", _TABLE, commit=commits[1])]
    assert scene.run(*entries) == 1
    told = capsys.readouterr().out
    assert "2 missing" in told
    assert "raw/own" in told
    fetching = [line for line in told.splitlines() if line.startswith("git ")]
    assert len(fetching) == 2
    for line in fetching:
        subprocess.run(line.replace(_ADDRESS, published.as_uri()), shell=True, check=True, capture_output=True)
    assert scene.run(*entries) == 0
    assert scene.files() == {"x/a.json": _TRACE, "x/b.csv": _TABLE}


def test_a_repository_whose_commit_is_unknown_is_cloned_in_full(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    assert scene.run(_entry("a.json", _TRACE, commit=None), _entry("b.csv", _TABLE)) == 1
    fetching = [line for line in capsys.readouterr().out.splitlines() if line.startswith("git ")]
    assert fetching == [f"git clone --mirror {_ADDRESS} {shlex.quote(str(scene.clones / 'owner-name.git'))}"]


def test_a_damaged_object_is_refused(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    clone = scene.clones / "one"
    _commit(clone, {"a.json": _TRACE, "b.csv": _TABLE})
    entry = _entry("a.json", _TRACE)
    place = clone / ".git" / "objects" / entry["blob"][:2] / entry["blob"][2:]
    place.chmod(0o600)
    place.write_bytes(place.read_bytes()[:-4])
    assert scene.run(entry, _entry("b.csv", _TABLE)) == 1
    assert scene.files() == {"b.csv": _TABLE}
    assert "a.json" in capsys.readouterr().out


@pytest.mark.parametrize("other", [{"sha256": "0" * 64}, {"bytes": 5}])
def test_content_that_the_manifest_does_not_describe_is_refused(
    scene: Scene, capsys: pytest.CaptureFixture[str], other: dict[str, Any]
) -> None:
    _commit(scene.clones / "one", {"a.json": _TRACE})
    assert scene.run(_entry("a.json", _TRACE, **other)) == 1
    assert scene.files() == {}
    assert "refused a.json" in capsys.readouterr().out


def test_differing_file_is_left_alone(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    _commit(scene.clones / "one", {"a.json": _TRACE})
    scene.target.mkdir()
    (scene.target / "a.json").write_bytes(b"mine")
    assert scene.run(_entry("a.json", _TRACE)) == 1
    assert scene.files() == {"a.json": b"mine"}
    assert "refused a.json: another file is there" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["", ".", "../a.json", "/a.json", "x/../../a.json"])
def test_a_manifest_with_a_path_that_leaves_the_folder_is_refused(scene: Scene, name: str) -> None:
    _commit(scene.clones / "one", {"a.json": _TRACE})
    with pytest.raises(ValueError, match="no path inside the folder"):
        scene.run(_entry(name, _TRACE))
    assert not scene.target.exists()


def test_a_link_out_of_the_folder_is_not_followed(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _commit(scene.clones / "one", {"a.json": _TRACE})
    (tmp_path / "elsewhere").mkdir()
    scene.target.mkdir()
    (scene.target / "x").symlink_to(tmp_path / "elsewhere")
    (scene.target / "b.json").symlink_to(tmp_path / "elsewhere" / "b.json")
    assert scene.run(_entry("x/a.json", _TRACE), _entry("b.json", _TRACE)) == 1
    assert not any((tmp_path / "elsewhere").iterdir())
    assert "2 refused" in capsys.readouterr().out


def test_the_manifest_is_sound() -> None:
    manifest = read_manifest()
    assert len({sample.path for sample in manifest.files}) == len(manifest.files)
    assert {sample.repository for sample in manifest.files} == set(manifest.repositories)
    assert not {sample.path for sample in manifest.files} & set(manifest.made)
    for sample in manifest.files:
        assert (len(sample.blob), len(sample.sha256), len(sample.commit or "1" * 40)) == (40, 64, 40)


def test_test_skips_without_its_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch_npu" / "text").mkdir(parents=True)
    monkeypatch.setattr("tests.samples.partial.FOLDER", tmp_path)
    folder = PartialFolder(tmp_path)
    inside = folder / "torch_npu" / "text"
    assert type(inside) is type(tmp_path)
    assert inside == tmp_path / "torch_npu" / "text" == folder / "torch_npu/text"
    assert inside / "absent" == tmp_path / "torch_npu" / "text" / "absent"
    for name in ("torch_npu/db", "torch_npu/db/level1", "TRUTH.json"):
        with pytest.raises(pytest.skip.Exception, match="not among the samples"):
            folder / name
    assert type(folder.parent / "beside") is type(tmp_path)
    with pytest.raises(pytest.skip.Exception, match="torch_npu/db is not among"):
        folder / "torch_npu" / "db"


@pytest.mark.slow
def test_the_published_samples_are_made_byte_for_byte(samples: Path, scene: Scene, tmp_path: Path) -> None:
    """A repository stands in for all, with each file of the samples under its public path."""
    manifest = read_manifest()
    clone = scene.clones / "all"
    clone.mkdir()
    _git(clone, "init", "-q")
    stream = [b"commit refs/heads/main\ncommitter A <a@example.org> 0 +0000\ndata 0\n"]
    for sample in manifest.files:
        content = (samples / sample.path).read_bytes()
        stream.append(b"M 100644 inline %s\ndata %d\n%s\n" % (sample.source.encode(), len(content), content))
    _git(clone, "fast-import", "--quiet", sent=b"".join(stream))
    assert main([str(scene.clones), "--to", str(scene.target)]) == 0
    found = scene.files()
    computed = json.loads(found.pop("TRUTH.json"))
    assert found == {sample.path: (samples / sample.path).read_bytes() for sample in manifest.files}
    everything = {path.relative_to(samples).as_posix() for path in Path(samples).rglob("*") if path.is_file()}
    others = everything - found.keys() - {"INVENTORY.md"}
    assert all(any(name == part or name.startswith(f"{part}/") for part in manifest.made) for name in others)
    known = json.loads((samples / "TRUTH.json").read_bytes())
    assert computed.keys() == known.keys()
    for path, figures in known.items():
        _agree(computed[path], figures, path)


def _agree(computed: Any, known: Any, where: str) -> None:
    """Assert the same figures; of parts of a microsecond, the last digit depends on how they are added."""
    if isinstance(known, dict):
        assert known.keys() - computed.keys() <= {"dangling_string_ids"}, where
        for key in computed:
            _agree(computed[key], known[key], f"{where}: {key}")
    elif isinstance(known, list):
        assert len(computed) == len(known), where
        for mine, other in zip(computed, known, strict=True):
            _agree(mine, other, where)
    elif isinstance(known, float):
        assert abs(computed - known) <= 0.001 + 1e-9, where
    else:
        assert computed == known, where
