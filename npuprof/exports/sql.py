"""SQL over tables: DuckDB reads them in memory, without access to files and the network.

Source: DuckDB's guide "Securing DuckDB" (enable_external_access, lock_configuration).
"""

from __future__ import annotations

import importlib.util
import re
import warnings
from collections.abc import Callable, Collection
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import ExitStack
from threading import TIMEOUT_MAX, Thread
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa

from npuprof.errors import NpuprofError, NpuprofWarning, OptionsError
from npuprof.words.quantities import counted
from npuprof.words.texts import encodable, plain_lines

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_SETTINGS = (  # in this order: the last setting locks the others
    "memory_limit='2GB'",
    "temp_directory=''",  # exceeding the memory limit is an error; nothing is spilled to disk
    "enable_progress_bar=false",
    "python_enable_replacements=false",
    "autoinstall_known_extensions=false",
    "autoload_known_extensions=false",
    "allow_community_extensions=false",
    "enable_external_access=false",
    "lock_configuration=true",
)
_LISTS_TABLES = re.compile(r"\b(?:show|describe|information_schema|duckdb_\w+|pg_\w+|sqlite_\w+)\b", re.IGNORECASE)
_ENDING_S = 10.0  # that a query may take to end; few functions do not notice that they should
_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())


def select(
    query: str,
    names: Collection[str],
    table: Callable[[str], pd.DataFrame],
    most_rows: int = 1_000_000,
    timeout_s: float = 60.0,
) -> pd.DataFrame:
    """Return the result of a query over tables.

    Returns
    -------
    pandas.DataFrame
        Integer columns with absent values, and sums of integers up to 63 bits, stay integers.
    """
    if importlib.util.find_spec("duckdb") is None:
        raise NpuprofError("DuckDB is needed for SQL: pip install 'npuprof[sql]'")
    if most_rows < 1:
        raise OptionsError(f"most_rows must be at least 1, not {most_rows}")
    if not timeout_s > 0:
        raise OptionsError(f"timeout_s must be more than 0 seconds, not {timeout_s}")
    answer = _answer(encodable(query), names, table, most_rows + 1, timeout_s)
    if len(answer) > most_rows:
        warnings.warn(
            f"the query has more than {counted(most_rows, 'row')}, and these are the first: add a LIMIT, aggregate, "
            "or give most_rows",
            NpuprofWarning,
            stacklevel=3,
        )
    return _frame(answer.slice(0, most_rows))


def _answer(
    query: str, names: Collection[str], table: Callable[[str], pd.DataFrame], most_rows: int, timeout_s: float
) -> pa.Table:
    import duckdb

    try:
        with ExitStack() as on_failure:
            connection = on_failure.enter_context(duckdb.connect())
            for setting in _SETTINGS:
                connection.execute(f"SET {setting}")
            _check_reads(connection, query)
            every = bool(_LISTS_TABLES.search(query))  # DuckDB finds no names in it
            wanted_names = set() if every else {name.lower() for name in connection.get_table_names(query)}
            for name in names:
                if every or name.lower() in wanted_names:
                    frame = table(name)
                    if len(frame.columns) or not every:
                        connection.register(name, _arrow(frame))
            on_failure.pop_all()
        return _run(connection, query, most_rows, timeout_s)
    except duckdb.OutOfMemoryException:
        raise OptionsError("the query needs more than 2 GB of memory: select less, or aggregate earlier") from None
    except duckdb.Error as error:
        raise OptionsError(
            f"the query cannot be answered: {plain_lines(str(error))}\nThe tables are {', '.join(names)}."
        ) from None


def _run(connection: DuckDBPyConnection, query: str, most_rows: int, timeout_s: float) -> pa.Table:
    """Run a query, and close its connection; a KeyboardInterrupt or a timeout ends it.

    It runs on another thread, since DuckDB itself notices an interrupt late, and raises a RuntimeError for it.
    """
    answer: Future[pa.Table] = Future()

    def work() -> None:
        try:
            with connection:
                answer.set_result(connection.sql(query).limit(most_rows).to_arrow_table())
        except BaseException as error:  # noqa: BLE001 - raised where the answer is waited for
            answer.set_exception(error)

    thread = Thread(target=work, name="npuprof-sql", daemon=True)
    thread.start()
    try:
        return answer.result(min(timeout_s, TIMEOUT_MAX))
    except FutureTimeoutError:
        raise OptionsError(
            f"the query took more than {timeout_s:g} s: select less, or raise the limit: sql(query, timeout_s=600)"
        ) from None
    finally:
        if not answer.done():
            connection.interrupt()
        thread.join(_ENDING_S)


def _check_reads(connection: DuckDBPyConnection, query: str) -> None:
    statements = connection.extract_statements(query)
    if len(statements) != 1 or statements[0].type.name != "SELECT":
        raise OptionsError("the query must be a SELECT, such as: select name, sum(duration_ns) from kernels group by 1")


def _arrow(frame: pd.DataFrame) -> pa.Table:
    named_rows = frame if all(name is None for name in frame.index.names) else frame.reset_index(allow_duplicates=True)
    named_rows = named_rows.set_axis([str(column) for column in named_rows.columns], axis=1)
    return pa.Table.from_pandas(named_rows, preserve_index=False)


def _frame(answer: pa.Table) -> pd.DataFrame:
    columns = [_narrow(column) for column in answer.columns]
    narrow = pa.Table.from_arrays(columns, names=answer.column_names)
    kinds = {**dict.fromkeys(_INTEGERS, pd.Int64Dtype()), pa.bool_(): pd.BooleanDtype()}
    return narrow.to_pandas(types_mapper=kinds.get, strings_to_categorical=False)


def _narrow(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Cast a 128-bit sum of integers, as DuckDB returns it, to 64 bits if it fits."""
    if pa.types.is_decimal(column.type) and column.type.scale == 0:
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid:
            return column
    return column
