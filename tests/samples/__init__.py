"""Real results that the tests read: the folder of them, and where each file was published.

``python -m tests.samples CLONES`` makes the folder from clones of the public repositories.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

FOLDER = Path(os.environ.get("NPUPROF_SAMPLES", Path(__file__).parents[3] / "shared" / "samples"))
"""The folder of samples, which there may be none of; tests take the fixture `samples`."""

MANIFEST = Path(__file__).with_name("manifest.json")

TRUTH = "TRUTH.json"
"""The file of figures beside the samples."""


@dataclass(frozen=True)
class Repository:
    """A public repository that samples come from.

    Attributes
    ----------
    name
        Its name, with that of its owner.
    licence
        The licence of what it contains.
    address
        What ``git clone`` takes.
    note
        What else there is to know of it; may be empty.
    """

    name: str
    licence: str
    address: str
    note: str


@dataclass(frozen=True)
class Made:
    """A part of the samples that was made for this project.

    Attributes
    ----------
    how
        How it was made.
    needed_by
        Which tests are skipped without it.
    """

    how: str
    needed_by: str


@dataclass(frozen=True)
class Sample:
    """One file of the samples.

    Attributes
    ----------
    path
        Its place in the folder of samples.
    repository
        The key of its repository in the manifest.
    commit
        A commit that has it at `source`; None: which one is not known, and only its content tells it.
    source
        Its path in the repository.
    bytes
        Its size.
    blob
        The name that git gives to this content, in any repository and commit.
    sha256
        The digest of its content.
    """

    path: str
    repository: str
    commit: str | None
    source: str
    bytes: int
    blob: str
    sha256: str

    def __post_init__(self) -> None:
        """Refuse a path that leaves the folder.

        Raises
        ------
        ValueError
            If the path is absolute, or has a part that goes up.
        """
        place = PurePosixPath(self.path)
        if place.is_absolute() or ".." in place.parts or not place.parts:
            raise ValueError(f"{self.path!r} is no path inside the folder of samples")


@dataclass(frozen=True)
class Manifest:
    """What the samples are.

    Attributes
    ----------
    repositories
        The public repositories, by key.
    made
        The parts that were made for this project, by their place in the folder of samples.
    files
        The published files.
    """

    repositories: dict[str, Repository]
    made: dict[str, Made]
    files: list[Sample]

    @property
    def parts(self) -> list[str]:
        """The places in the folder of samples that are there in whole or not at all."""
        return sorted({*map(part_of, self.files), *self.made})


def part_of(sample: Sample) -> str:
    """Return the part of the samples that a published file belongs to: the first two folders of its path."""
    return "/".join(sample.path.split("/")[:2])


def read_manifest(path: Path = MANIFEST) -> Manifest:
    """Return what a manifest tells."""
    content = json.loads(path.read_bytes())
    repositories = {key: Repository(**fields) for key, fields in content["repositories"].items()}
    made = {part: Made(**fields) for part, fields in content["made"].items()}
    return Manifest(repositories, made, [Sample(**fields) for fields in content["files"]])


def commands(repository: Repository, samples: Sequence[Sample], clones: Path) -> list[list[str]]:
    """Return the commands that fetch what is missing of a repository into the folder of clones.

    Where every commit is known, only those are fetched, without history; otherwise the repository is cloned in full.
    """
    place = str(clones / f"{repository.name.replace('/', '-')}.git")
    commits = sorted({sample.commit or "" for sample in samples})
    if "" in commits:
        return [["git", "clone", "--mirror", repository.address, place]]
    return [
        ["git", "init", "--bare", place],
        ["git", "-C", place, "fetch", "--depth", "1", repository.address, *commits],
    ]
