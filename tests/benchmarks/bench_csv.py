"""A table of a million kernels to columns, beside readers that only parse the CSV.

By hand: ``python -m tests.benchmarks.bench_csv [--rows 1000000] [--runs 3]``

The file is made here, in the vendor's form (tabs behind times, N/A, quoted shapes), in a temporary directory. pyarrow
and pandas read it as it is: their times are floats, so that nanoseconds are lost, and N/A makes columns text. `exact`
is pyarrow with every cell as text, which is what exact times need first. Every reading is a process of its own, the
readers in turns; of several readings the fastest counts, and its peak memory.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from tests.benchmarks.apart import compare, measured

_HEADER = (
    "Step Id,Name,Type,OP State,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),Block Dim,Input Shapes,"
    "Input Data Types,Output Shapes,aicore_time(us),aic_mac_ratio\n"
)
_SHAPES = ('"""8,128;128,64"""', '"""1024"""', "N/A")


def write_big(target: Path, rows: int) -> None:
    """Write the kernels."""
    with target.open("w", encoding="utf-8") as file:
        file.write(_HEADER)
        for row in range(rows):
            at = f"{1_763_600_000_000_000 + row * 7}.{row % 1000:03d}\t"
            shapes = _SHAPES[row % 3]
            file.write(
                f"{row % 50},aclnnAdd_{row % 400},Add,dynamic,{'N/A' if row % 90 == 0 else 'AI_VECTOR_CORE'},{at},"
                f"{row % 77}.{row % 97},0.{row % 9},{row % 48},{shapes},FLOAT;FLOAT,{shapes},{row % 70}.5,"
                f"0.{row % 83}\n"
            )


def read_kernels(path: Path) -> int:
    """Read the table of kernels, exact."""
    from npuprof.sources.text.kernel_details import read_kernel_details
    from npuprof.tables.notes import Notes

    return len(read_kernel_details(path, Notes()).kernels)


def read_arrow(path: Path) -> int:
    import pyarrow.csv

    return int(pyarrow.csv.read_csv(path, read_options=pyarrow.csv.ReadOptions(use_threads=False)).num_rows)


def read_exact(path: Path) -> int:
    import pyarrow as pa
    import pyarrow.csv

    texts = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(_HEADER.strip().split(","), pa.string()))
    options = pyarrow.csv.ReadOptions(use_threads=False)
    return int(pyarrow.csv.read_csv(path, read_options=options, convert_options=texts).num_rows)


def read_pandas(path: Path) -> int:
    import pandas as pd

    return len(pd.read_csv(path))


_READERS = {"npuprof": read_kernels, "pyarrow": read_arrow, "pyarrow exact": read_exact, "pandas": read_pandas}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("path", nargs="?", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--read", choices=_READERS)
    options = parser.parse_args()
    if options.read:
        print(json.dumps(measured(lambda: _READERS[options.read](options.path))))
        return
    with tempfile.TemporaryDirectory(prefix="npuprof-bench-") as folder:
        big = Path(folder) / "kernel_details.csv"
        write_big(big, options.rows)
        print(f"{options.rows:,} rows, {big.stat().st_size / 1e6:.0f} MB; fastest of {options.runs}")
        compare("tests.benchmarks.bench_csv", list(_READERS), big, options.runs)


if __name__ == "__main__":
    main()
