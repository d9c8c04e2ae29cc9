"""The reference page that says where the samples come from, made from the manifest."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from tests.samples import Manifest, Sample, part_of, read_manifest

_HEAD = """# Where the evidence comes from

Many tests compare what npuprof reads with results of real devices that others have published. npuprof does not contain
these files: tests that need them are skipped without them. This page says where each was published, so that anybody
can get the same files and run the same tests. It is written by `python -m tests.reference_pages` from
`tests/samples/manifest.json`, which has the SHA-256 of every file.

## Get the files, and run the tests with them

1. `python -m tests.samples CLONES --to SAMPLES`, in a clone of npuprof with the requirements of its tests, looks into
   every git repository in the folder `CLONES`, whatever it is called and whatever is checked out. While some of the
   files below are in none of them, it prints the `git` commands that fetch them there.
2. Run these commands, and the first one again. It writes the files into `SAMPLES`, each checked by its SHA-256, and
   names what is missing or damaged. It changes no file that is there already. When all are there, it computes
   `TRUTH.json` from them: figures that npuprof must agree with, computed without it, by the standard library alone
   (`tests/samples/figures`).
3. `NPUPROF_SAMPLES=SAMPLES python -m pytest -q -n 2 --all` runs all tests with them.

Files are found by the name that git gives to their content, in any commit. The commit in the table is one that has
them; where it says "not known", a clone with its whole history is needed. Paths and commits were looked up in a public
index of these repositories: the size of text files is the same there, and of some the text, but of databases, archives
and raw records (`.db`, `.gz`, `hwts`) it has only the name. What the command writes is right in any case, since it
checks the content.

## Published files

| samples | files | repository and licence | path there | commit |
|---|---|---|---|---|
"""
_MADE = """
None of them was cut or edited for these tests: each is a whole file of its repository.

## What was made for this project

No public repository has these. Tests that need them are skipped where they are absent.

| samples | how they were made | tests that need them |
|---|---|---|
"""
_TAIL = """
The tests write such files themselves as well, from the same specifications: raw directories
(`tests/sources/raw/writers`), raw data of torch_npu (`tests/sources/framework/writer.py`), results of MindSpore
(`tests/sources/mindspore/maker.py`) and of msprof (`tests/sources/msprof/results.py`). Those tests run everywhere, but
their expected values come from the specification, not from the vendor's parser.
"""


def evidence_page() -> str:
    """Return the page in Markdown."""
    manifest = read_manifest()
    groups: dict[tuple[str, str], list[Sample]] = {}
    for sample in manifest.files:
        groups.setdefault((part_of(sample), sample.repository), []).append(sample)
    rows = "".join(_row(manifest, part, key, samples) for (part, key), samples in sorted(groups.items()))
    notes = "".join(
        f"\n- {repository.name}: {repository.note}." for repository in manifest.repositories.values() if repository.note
    )
    own = "".join(f"| `{part}` | {made.how} | {made.needed_by} |\n" for part, made in manifest.made.items())
    return f"{_HEAD}{rows}{notes}\n{_MADE}{own}{_TAIL}"


def _row(manifest: Manifest, part: str, key: str, samples: Sequence[Sample]) -> str:
    repository = manifest.repositories[key]
    address = repository.address.removesuffix(".git")
    path = posixpath.commonpath([sample.source for sample in samples])
    known = sorted({sample.commit for sample in samples if sample.commit is not None})
    commits = [f"`{commit}`" for commit in known]
    if unknown := [sample for sample in samples if sample.commit is None]:
        commits.append(f"not known of `{posixpath.basename(unknown[0].source)}`" if known else "not known")
    cells = (
        f"`{part}`",
        str(len(samples)),
        f"[{repository.name}]({address}), {repository.licence}",
        f"[{path}]({address}/tree/{known[0] if known else 'master'}/{path})",
        ", ".join(commits),
    )
    return f"| {' | '.join(cells)} |\n"
