"""A saved profile of about a million events, opened again, beside the timeline that it came from.

By hand: ``python -m tests.benchmarks.bench_saved [--megabytes 200] [--runs 3]``

The timeline is that of ``bench_trace_json``. Every reading is a process of its own, in turns; of several the fastest
counts. Its seconds divided by millions of rows is what a saved profile takes for a million.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path

from tests import samples
from tests.benchmarks.apart import compare, measured
from tests.benchmarks.bench_trace_json import SAMPLE, read_tables, write_big

_SAVED = "saved"
_SAVE = "import npuprof, sys; npuprof.load(sys.argv[1]).save(sys.argv[2])"


def read_saved(path: Path) -> int:
    """Open the profile that was saved beside a timeline; give the number of its rows."""
    import npuprof

    return sum(map(len, npuprof.load(path.with_name(_SAVED)).tables.values()))


_READERS = {"npuprof": read_saved, "timeline": read_tables}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("path", nargs="?", type=Path)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--read", choices=_READERS)
    options = parser.parse_args()
    if options.read:
        if options.read == "npuprof":
            import_module("npuprof.loading")  # what is measured is the opening, not the libraries
        print(json.dumps(measured(lambda: _READERS[options.read](options.path))))
        return
    with tempfile.TemporaryDirectory(prefix="npuprof-bench-") as folder:
        big = Path(folder) / "trace_view.json"
        count = write_big(options.path or samples.FOLDER / SAMPLE, big, options.megabytes)
        saved = big.with_name(_SAVED)
        # In a process of its own: a child's peak memory begins with that of its parent.
        subprocess.run([sys.executable, "-c", _SAVE, big, saved], check=True)
        size = sum(file.stat().st_size for file in saved.rglob("*") if file.is_file())
        print(f"{count:,} events, {big.stat().st_size / 1e6:.0f} MB, saved {size / 1e6:.0f} MB; of {options.runs}")
        compare("tests.benchmarks.bench_saved", list(_READERS), big, options.runs)


if __name__ == "__main__":
    main()
