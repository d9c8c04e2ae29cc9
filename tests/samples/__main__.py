"""Make the folder of samples from local clones of the public repositories: ``python -m tests.samples CLONES``."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from npuprof.files import atomic
from tests.samples import FOLDER, MANIFEST, TRUTH, Repository, Sample, commands, read_manifest
from tests.samples.figures import of_folder

_MADE = "Tests that need them are skipped; notebooks/reference/evidence.md tells how they were made."
_DEPTH = 3  # of folders below the folder of clones, such as owner/name


_OUTCOMES = {"written": "written", "present": "already there", "missing": "missing", "refused": "refused"}


@dataclass(frozen=True)
class Clone:
    """A local clone, whatever is checked out in it."""

    directory: Path

    def sizes(self, blobs: Sequence[str]) -> dict[str, int]:
        """Return the sizes of those of the blobs that any commit of the clone has."""
        asked = "".join(f"{blob}\n" for blob in blobs).encode()
        answer = self._git(["cat-file", "--batch-check"], asked).decode("ascii", "replace")
        fields = (line.split() for line in answer.splitlines())
        return {each[0]: int(each[2]) for each in fields if len(each) == 3 and each[1] == "blob"}

    def content(self, blob: str) -> bytes:
        """Return the content of a blob, empty if git cannot read it."""
        return self._git(["cat-file", "blob", blob])

    def _git(self, arguments: list[str], sent: bytes = b"") -> bytes:
        # Git's variables may name another repository; a partial clone would ask its server for every blob.
        own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        command = ["git", f"--git-dir={self.directory}", *arguments]
        environment = own | {"GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}
        done = subprocess.run(command, input=sent, capture_output=True, env=environment, check=False)
        if done.returncode:
            print(f"git cannot read {self.directory}: {done.stderr.decode(errors='replace').strip()}", file=sys.stderr)
        return done.stdout


def find_clones(folder: Path, depth: int = _DEPTH) -> Iterator[Clone]:
    """Yield the clones in a folder, which may be one itself: bare ones, and those with a working tree."""
    for directory in (folder / ".git", folder):
        if (directory / "HEAD").is_file() and (directory / "objects").is_dir():
            yield Clone(directory)
            return
    if depth and folder.is_dir():
        for inner in sorted(folder.iterdir()):
            if inner.is_dir() and not inner.is_symlink():
                yield from find_clones(inner, depth - 1)


@dataclass
class Outcome:
    """What became of the samples, each in one of these lists."""

    written: list[Sample]
    present: list[Sample]
    missing: list[Sample]
    refused: list[tuple[Sample, str]]


def make(samples: Sequence[Sample], clones: Iterable[Clone], folder: Path) -> Outcome:
    """Write the samples that the clones have into a folder, and look at those that are there.

    A file that is there already is read and never replaced. Nothing is written outside the folder, and nothing whose
    content is not that of the manifest.
    """
    outcome = Outcome([], [], [], [])
    homes = {blob: (clone, size) for clone in clones for blob, size in clone.sizes([s.blob for s in samples]).items()}
    for sample in samples:
        place = folder / sample.path
        if not place.parent.resolve().is_relative_to(folder.resolve()):
            outcome.refused.append((sample, "a symbolic link leads out of the folder"))
        elif os.path.lexists(place):
            if place.is_file() and not place.is_symlink() and _is(sample, place.read_bytes()):
                outcome.present.append(sample)
            else:
                outcome.refused.append((sample, "another file is there, and is left alone"))
        elif sample.blob not in homes:
            outcome.missing.append(sample)
        else:
            clone, size = homes[sample.blob]
            content = clone.content(sample.blob) if size == sample.bytes else b""
            if _is(sample, content):
                with atomic.replacing(place) as out:
                    out.write(content)
                outcome.written.append(sample)
            else:
                outcome.refused.append((sample, f"what {clone.directory} has is damaged"))
    return outcome


def _is(sample: Sample, content: bytes) -> bool:
    return len(content) == sample.bytes and hashlib.sha256(content).hexdigest() == sample.sha256


def report(outcome: Outcome, repositories: dict[str, Repository], clones: Path) -> list[str]:
    """Return the lines that say what became of the samples, and how to get what is missing."""
    counts = {words: len(getattr(outcome, name)) for name, words in _OUTCOMES.items()}
    told = ", ".join(f"{count} {words}" for words, count in counts.items())
    lines = [f"{sum(counts.values())} published files: {told}"]
    lines += [f"refused {sample.path}: {reason}" for sample, reason in outcome.refused]
    for key, repository in repositories.items():
        missing = [sample for sample in outcome.missing if sample.repository == key]
        if missing:
            lines += [
                "",
                f"{len(missing)} files of {repository.name} are in none of the clones, such as {missing[0].path}",
            ]
            lines += [shlex.join(command) for command in commands(repository, missing, clones)]
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the folder, and return 0 if every published file is in it."""
    parser = argparse.ArgumentParser(prog="python -m tests.samples", description=__doc__)
    parser.add_argument("clones", type=Path, help="a folder of clones of the public repositories, under any names")
    parser.add_argument("--to", type=Path, default=FOLDER, help="the folder of samples to make (default: %(default)s)")
    parser.add_argument("--manifest", type=Path, default=MANIFEST, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if shutil.which("git") is None:
        parser.error("git is needed to read the clones, and is not installed")
    manifest = read_manifest(options.manifest)
    outcome = make(manifest.files, find_clones(options.clones), options.to)
    lines = report(outcome, manifest.repositories, options.clones)
    complete = not outcome.missing and not outcome.refused
    truth = options.to / TRUTH
    if complete and TRUTH in manifest.made and not os.path.lexists(truth):
        with atomic.replacing(truth) as out:
            out.write(json.dumps(of_folder(options.to), indent=1).encode())
        lines += [f"{truth}: figures computed from them, which npuprof must agree with"]
    absent = [part for part in manifest.made if not (options.to / part).exists()]
    if absent:
        lines += ["", f"made for this project, and in no public repository: {', '.join(absent)}", _MADE]
    print("\n".join(lines))
    return int(not complete)


if __name__ == "__main__":
    sys.exit(main())
