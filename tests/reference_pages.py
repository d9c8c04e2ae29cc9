"""Reference pages made from the code: ``python -m tests.reference_pages`` writes them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import get_args

import pandas as pd

from npuprof import errors
from npuprof.advice.causes import CAUSES
from npuprof.advice.gate import GateError
from npuprof.analysis.by import Key
from npuprof.cli import main
from npuprof.dynamic import keys
from npuprof.options import SPECIFICATION, has_value
from npuprof.options.mindspore import SWITCHES
from npuprof.options.specification import FRONT_ENDS
from npuprof.simulator.cluster.exchange import RankError
from npuprof.tables.schema import SCHEMA, Column
from npuprof.words.glossary import TERMS
from tests import vendor_settings
from tests.api_page import api_page
from tests.samples.page import evidence_page

FOLDER = Path(__file__).parents[1] / "notebooks" / "reference"

_TABLES = """# Tables and columns

Every run has every table, as a pandas DataFrame: `run.kernels`, `run.tables["kernels"]`, and of a set
`runs.table("kernels")`, whose last columns are `run`, `rank` and `host`. A table that the data does not have is
empty. A source may add columns of its own. Times are whole nanoseconds of the UTC epoch; an absent value is `<NA>` or
NaN, never a number that means none. `npuprof.explain("kernels.block_num")` prints what stands here of a column, with
the names that it has in files. This page is written by `python -m tests.reference_pages` from
`npuprof/tables/schema.py`.

"""
_ERRORS = """# Errors

Each error says what happened, where, and what to do next; in a notebook only that is shown, without a traceback. All
but the warning derive from `NpuprofError`. This page is written by `python -m tests.reference_pages` from
`npuprof/errors.py`, `npuprof/advice/gate.py` and `npuprof/simulator/cluster/exchange.py`.

| error | is also | raised when |
|---|---|---|
"""


_STATISTICS = """## How tables summarise

In `run.by(...)` and the tables of a report, `mean_ns` and `median_ns` (of an even count, between the middle two) are
rounded down to whole nanoseconds. `std_ns` is the deviation of the population, divided by the count and not by one
less, rounded. `p95_ns` is a value that occurred: of `n` sorted values the one before the last `n // 20`. In a set of
many ranks, quantiles of over 256 values are estimated. `run.step_statistics()` has the same quantiles.
"""


def hidden_columns() -> dict[str, list[str]]:
    """Return by table the columns that are no attributes of a DataFrame, which has one of that name.

    The table ``by`` stands for ``run.by(...)``.
    """
    sums = [
        *get_args(Key),
        "count",
        "total_ns",
        "mean_ns",
        "std_ns",
        "min_ns",
        "median_ns",
        "p95_ns",
        "max_ns",
        "share",
    ]
    columns = {table.name: [column.name for column in table.columns] for table in SCHEMA.values()}
    hidden = {
        name: [column for column in of if hasattr(pd.DataFrame, column)]
        for name, of in (columns | {"by": sums}).items()
    }
    return {name: of for name, of in hidden.items() if of}


def _brackets() -> str:
    """Return the way to columns that a DataFrame hides."""
    ways = []
    for name, hidden in hidden_columns().items():
        for column in hidden:
            frame = f"run.{name}" if name != "by" else f'run.by("{column if column in get_args(Key) else "op"}")'
            ways.append(f'`{frame}["{column}"]`')
    text = (
        "A column is an attribute too, `run.kernels.duration_ns`, but not where a DataFrame has one of that name. "
        f'There only brackets give the column: {", ".join(ways)}, and `["rank"]` of every table of a set.'
    )
    return "\n".join(textwrap.wrap(text, 120, break_on_hyphens=False)) + "\n\n"


def tables_page() -> str:
    """Return the reference of tables and columns in Markdown."""
    parts = []
    for table in SCHEMA.values():
        rows = "".join(map(_row, table.columns))
        parts.append(
            f"## {table.name}\n\nA row is {table.row}.\n\n| column | unit | values | |\n|---|---|---|---|\n{rows}"
        )
    return _TABLES + _brackets() + "\n".join([*parts, _STATISTICS])


def _row(column: Column) -> str:
    values = f"{column.values}, may be absent" if column.may_be_absent else column.values
    return f"| `{column.name}` | {column.unit} | {values} (`{column.dtype}`) | {column.meaning} |\n"


def errors_page() -> str:
    """Return the reference of errors in Markdown."""
    rows = "".join(
        f"| `{error.__name__}` | {', '.join(f'`{base.__name__}`' for base in error.__bases__)} | {_first(error)} |\n"
        for error in _classes()
    )
    statuses = re.search(r"(0 for .*)\.\n", main.__doc__ or "", re.DOTALL)
    assert statuses is not None
    return f"{_ERRORS}{rows}\nThe command `npuprof` returns {' '.join(statuses[1].split())}.\n"


def _classes() -> Iterator[type[BaseException]]:
    for value in vars(errors).values():
        if isinstance(value, type) and value.__module__ == errors.__name__ and issubclass(value, BaseException):
            yield value
    yield from (GateError, RankError)


def _first(error: type[BaseException]) -> str:
    return (error.__doc__ or "").strip().partition("\n\n")[0].replace("\n", " ").rstrip(".")


_GLOSSARY = """# Glossary

The words of the field and of npuprof's reports. In reports their meaning appears under the pointer, and
`npuprof.explain("HCCS")` prints it. Columns are explained in [tables](tables.md), options in [options](options.md).
This page is written by `python -m tests.reference_pages` from `npuprof/words/glossary.py`.

| word | meaning |
|---|---|
"""


def glossary_page() -> str:
    """Return the glossary in Markdown."""
    return _GLOSSARY + "".join(f"| {word} | {TERMS[word]} |\n" for word in sorted(TERMS, key=str.lower))


def vendors_page() -> str:
    """Return the page from the vendors' names to npuprof's: the written one with its tables of options made again."""
    written = (FOLDER / "vendors.md").read_text(encoding="utf-8")
    return re.sub(r"(?<=<!-- options of )(\w+)( -->\n).*?(?=<!-- end -->)", _options_of, written, flags=re.DOTALL)


def _options_of(found: re.Match[str]) -> str:
    if found[1] == "profiler_config":
        rows = _of_keys()
    elif found[1] == "MS_PROFILER_OPTIONS":
        rows = ((f"`{name}`", option) for name, option in SWITCHES.items())
    else:
        rows = ((_codes(names), option) for option, names in vendor_settings.set_by(found[1]))
    lines = (f"| {name} | `{option}` | {_values(found[1], option)} |\n" for name, option in rows)
    return f"{found[1]}{found[2]}\n| setting | option | its values |\n|---|---|---|\n{''.join(lines)}\n"


def _values(front_end: str, option: str) -> str:
    described = SPECIFICATION[option].values or "on or off"
    for word in SPECIFICATION[option].only:
        if front_end in FRONT_ENDS and not has_value(front_end, option, word):
            described = described.replace(f", {word}", "")
    return described


def _of_keys() -> Iterator[tuple[str, str]]:
    """Yield the keys of ``profiler_config.json`` that set an option, each option once."""
    names: dict[str, dict[str, None]] = {}
    for name, key in (*keys.TORCH_NPU.items(), *keys.TORCH_NPU_SPECIAL.items(), *keys.MINDSPORE.items()):
        if key.option:
            names.setdefault(key.option, {})[name] = None
    return ((_codes(found), option) for option, found in names.items())


def _codes(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def findings_page() -> str:
    """Return the page of findings, which is written by hand, with the table of causes."""
    page = (FOLDER / "advice.md").read_text(encoding="utf-8")
    rows = [
        f"| `{cause.name}` | {cause.where} | `{cause.example}` | {cause.action.replace('{call}', 'the call')} |"
        for cause in CAUSES
    ]
    head, _, rest = page.partition("<!-- causes -->")
    table = "\n".join(["| cause | where the time goes | example | action |", "|---|---|---|---|", *rows])
    return f"{head}<!-- causes -->\n{table}\n<!-- end of causes -->{rest.partition('<!-- end of causes -->')[2]}"


PAGES = {
    "advice.md": findings_page,
    "tables.md": tables_page,
    "errors.md": errors_page,
    "vendors.md": vendors_page,
    "evidence.md": evidence_page,
    "glossary.md": glossary_page,
    "api.md": api_page,
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")
