"""SQL over a run's tables: exact, bounded, and without a way to files."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import npuprof
from npuprof.errors import NpuprofError, NpuprofWarning, OptionsError
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from tests import factories, pace

pytestmark = pytest.mark.slow  # duckdb takes half a second to import


@pytest.fixture(scope="module")
def run() -> npuprof.Profile:
    pytest.importorskip("duckdb", reason="duckdb is not installed")
    return npuprof.Profile(
        Decoded(factories.all_tables(**factories.profile(400)), factories.info(), Notes(), {"op sums": pd.DataFrame()})
    )


def test_answers_equal_tables_to_the_nanosecond(run: npuprof.Profile) -> None:
    answer = run.sql("select op_type, count(*) n, sum(start_ns) total, max(start_ns) newest from kernels group by 1")
    kernels = run.kernels.assign(op_type=run.kernels["op_type"].astype(str))
    for op_type, rows in kernels.groupby("op_type"):
        row = answer.set_index("op_type").loc[op_type]
        assert (row["n"], row["newest"]) == (len(rows), rows["start_ns"].max())
        assert int(row["total"]) == sum(rows["start_ns"].tolist())
    assert answer["newest"].dtype == "Int64"
    assert run.sql("select start_ns from kernels order by start_ns").equals(
        run.kernels[["start_ns"]].sort_values("start_ns", ignore_index=True).astype("Int64")
    )


def test_what_is_absent_stays_absent_beside_whole_numbers(run: npuprof.Profile) -> None:
    times = pd.array([1_760_000_000_123_456_789, None], "Int64")
    marks = pd.DataFrame({"id": times, "value": [np.nan, 1.0], "flag": pd.array([None, True], "boolean")})
    holed = npuprof.Profile(Decoded({**run.tables, "counters": marks}, run.info, Notes()))
    pd.testing.assert_frame_equal(holed.sql("select * from counters"), marks)
    assert holed.sql("select count(value) n, count(*) as all from counters").iloc[0].tolist() == [1, 2]


@pytest.mark.parametrize(
    "query",
    [
        "select * from read_text('{file}')",
        "select * from read_csv('{file}')",
        "select * from '{file}'",
        "select * from glob('{folder}/*')",
        "copy kernels to '{folder}/out.csv'",
        "attach '{folder}/new.db'",
        "set enable_external_access=true",
        "install httpfs",
        "select 1; select 2",
        "drop table kernels",
        "selec",
        "",
        "select * from nowhere",
        "select * from run",  # a variable of Python
    ],
)
def test_a_query_that_does_more_than_read_tables_is_refused(run: npuprof.Profile, query: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n", encoding="utf-8")
    with pytest.raises(OptionsError) as refused:
        run.sql(query.format(file=secret, folder=tmp_path))
    assert "kernels" in str(refused.value)  # the tables, or an example
    assert list(tmp_path.iterdir()) == [secret]


def test_rows_beyond_the_bound_are_told(run: npuprof.Profile) -> None:
    with pytest.warns(NpuprofWarning, match="more than 5 rows"):
        assert run.sql("select * from range(10000000000)", most_rows=5)["range"].tolist() == [0, 1, 2, 3, 4]
    assert len(run.sql("select * from range(5)", most_rows=5)) == 5
    with pytest.raises(OptionsError, match="at least 1"):
        run.sql("select 1", most_rows=0)


def test_other_tables_are_there_by_their_names(run: npuprof.Profile) -> None:
    assert run.sql("select count(*) n from launches")["n"].item() == len(run.launches)
    assert run.sql("select count(*) n from NOTES")["n"].item() == len(run.notes)


def test_a_set_has_its_ranks_in_one_table(run: npuprof.Profile, tmp_path: Path) -> None:
    for name in ("a", "b"):
        run.save(tmp_path / name)
    runs = npuprof.load_set(tmp_path)
    answer = runs.sql("select run, count(*) n from kernels join info on info.path is not null group by 1 order by 1")
    assert answer["n"].tolist() == [2 * len(run.kernels)] * 2


def test_without_duckdb_the_next_step_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(NpuprofError, match=r"pip install 'npuprof\[sql\]'"):
        npuprof.Profile(Decoded()).sql("select 1")


def test_the_tables_are_listed_and_described(run: npuprof.Profile) -> None:
    names = set(run.sql("show tables")["name"])
    assert names == {*run.tables, "launches", "notes"}  # the vendor's sums have no columns here
    assert set(run.sql("select table_name from information_schema.tables")["table_name"]) == names
    for query in ("describe kernels", "show kernels"):
        assert run.sql(query)["column_name"].tolist() == run.kernels.columns.tolist()
    assert len(run.sql("show all tables")) == len(names)


def test_broken_unicode_matches_the_tables(run: npuprof.Profile) -> None:
    assert run.sql("select '\ud800' as a -- \udcff")["a"].tolist() == ["\\ud800"]


_ENDLESS = {
    "rows": "select count(*) from range(1000000000) a, range(1000000) b where a.range * b.range % 7 = 3",
    "recursion": "with recursive t(n) as (select 1 union all select n + 1 from t) select count(*) from t",
}


@pytest.mark.parametrize("name", _ENDLESS)
def test_a_query_is_interrupted_at_once(run: npuprof.Profile, name: str, interruptible: None) -> None:
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run.sql(_ENDLESS[name], timeout_s=pace.seconds(120))
    timer.join()
    assert run.sql("select 1 one")["one"].tolist() == [1]
    assert "npuprof-sql" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize("name", _ENDLESS)
def test_a_query_that_takes_too_long_is_ended(run: npuprof.Profile, name: str) -> None:
    with pytest.raises(OptionsError, match=r"^the query took more than 0.2 s: select less, or raise the limit"):
        run.sql(_ENDLESS[name], timeout_s=0.2)
    assert run.sql("select 1 one", timeout_s=1e12)["one"].tolist() == [1]
    for wrong in (0, -1, float("nan")):
        with pytest.raises(OptionsError, match=r"timeout_s (must be more than 0|of sql\(\) must be a number)"):
            run.sql("select 1", timeout_s=wrong)
