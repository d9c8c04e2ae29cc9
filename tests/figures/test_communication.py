"""The figures of communication."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from npuprof import tables
from npuprof.analysis.traffic import link_packets, operator_times, rank_traffic
from npuprof.figures.communication import plot_collectives, plot_traffic
from npuprof.figures.embed import saved_bytes
from npuprof.tables.info import Info
from tests import factories


def transfers(ranks: int, link: str = "HCCS") -> dict[str, pd.DataFrame]:
    """A run in which every rank sends a megabyte for each number of its own to every other."""
    source, target = (side.ravel() for side in np.meshgrid(np.arange(ranks), np.arange(ranks), indexing="ij"))
    columns = {
        "start_ns": factories.START_NS + np.arange(len(source)),
        "duration_ns": np.full(len(source), 1_000),
        "device_id": np.zeros(len(source), np.int64),
        "src_rank": source,
        "dst_rank": target,
        "size_bytes": (source + 1) * 10**6,
        "link": [link] * len(source),
    }
    return factories.all_tables(communication_tasks=tables.build("communication_tasks", columns))


def communication_of(run: dict[str, pd.DataFrame], info: Info, statistics: dict[str, pd.DataFrame]) -> Any:
    return plot_collectives(operator_times(run, statistics), link_packets(run, statistics), info)


def shown(figure: Any) -> dict[str, Any]:
    return {trace.name: trace for trace in figure.data}


@pytest.mark.slow
@pytest.mark.parametrize(("value", "cell"), [("size", 2.0), ("time", 0.001), ("bandwidth", 2_000.0)])
def test_matrix_cell_is_traffic_of_two_ranks(value: Any, cell: float) -> None:
    figure = plot_traffic(rank_traffic(transfers(3), {}), factories.info(), value=value)
    (heat,) = figure.data
    assert list(heat.x) == list(heat.y) == ["0", "1", "2"]
    assert heat.z[1][0] == pytest.approx(cell)
    assert "1 to 0" in heat.hovertext[1][0]
    assert heat.hovertext[1][0].endswith("<br>1 transfer")
    assert "HCCS" in heat.hovertext[1][0]
    assert "simulated" in figure.layout.title.text


def test_pairs_without_traffic_are_empty_and_not_zero() -> None:
    run = transfers(2)
    run["communication_tasks"] = run["communication_tasks"].iloc[1:2]
    heat = plot_traffic(rank_traffic(run, {}), Info()).data[0]
    assert [list(row) for row in heat.z] == [[None, 1.0], [None, None]]


@pytest.mark.slow
def test_ranks_moving_most_are_drawn() -> None:
    figure = plot_traffic(rank_traffic(transfers(150), {}), Info(), max_ranks=16)
    assert list(figure.data[0].x) == [str(rank) for rank in range(134, 150)]
    assert "the 16 busiest of 150 ranks" in figure.layout.title.text
    assert saved_bytes(plot_traffic(rank_traffic(transfers(200), {}), Info())) < 700_000


def test_a_value_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="must be one of size, time, bandwidth"):
        plot_traffic(rank_traffic(transfers(2), {}), Info(), value="speed")  # type: ignore[arg-type]


@pytest.mark.slow
def test_bars_and_points_show_times_and_rates() -> None:
    run = transfers(3) | {"communication": factories.profile(50)["communication"]}
    run["communication_tasks"]["op_id"] = pd.array([0] * 9, "Int64")
    figure = communication_of(run, Info(), {})
    drawn = shown(figure)
    whole = run["communication"]["duration_ns"].sum() / 1_000
    parts = [drawn[name].x.sum() for name in ("moving data", "waiting", "neither")]
    assert sum(parts) == pytest.approx(whole)
    assert list(drawn["HCCS"].x) == [1e6, 2e6, 3e6]
    assert list(drawn["HCCS"].y) == [1_000.0, 2_000.0, 3_000.0]
    assert "10 operators" in figure.layout.title.text


@pytest.mark.slow
def test_where_waiting_is_not_known_it_says_so() -> None:
    figure = communication_of(factories.profile(50), Info(), {})
    assert "waiting is not known" in figure.layout.title.text
    assert set(shown(figure)) == {"time"}
    assert "not recorded" in figure.layout.annotations[1].text


@pytest.mark.slow
def test_many_operators_and_sizes_stay_small_and_none_is_lost() -> None:
    count = 3_000
    operators = tables.build(
        "communication",
        {
            "start_ns": factories.START_NS + np.arange(count),
            "duration_ns": np.full(count, 10),
            "device_id": np.zeros(count, np.int64),
            "op_type": [f"<op{number % 300}>" for number in range(count)],
            "group": [str(10**18 + number % 300) for number in range(count)],
        },
    )
    run = transfers(150) | {"communication": operators}
    run["communication_tasks"]["size_bytes"] = pd.array(np.arange(1, 150**2 + 1), "Int64")
    figure = communication_of(run, Info(), {})
    assert sum(shown(figure)["time"].x) * 1 == pytest.approx(10 * count / 1_000)
    assert len(set(shown(figure)["time"].y)) == 24
    assert "(277 more)" in shown(figure)["time"].y[-1]
    assert len(shown(figure)["HCCS"].x) <= 600
    assert saved_bytes(figure) < 300_000
    assert "<op" not in str(figure.to_json())


def test_single_rank_says_what_to_collect() -> None:
    for figure in (
        plot_traffic(rank_traffic(factories.all_tables(), {}), Info()),
        communication_of(factories.all_tables(), Info(), {}),
    ):
        assert not figure.data
        assert "level 1" in figure.layout.annotations[0].text


def test_empty_cell_differs_from_no_bytes() -> None:
    traffic = pd.DataFrame(
        {
            "src_rank": ["0", "1"],
            "dst_rank": ["1", "0"],
            "size_bytes": [0.0, 5e6],
            "duration_ns": [1.0, 1e6],
            "tasks": 1,
            "links": "HCCS",
        }
    )
    figure = plot_traffic(traffic, Info())
    (heat,) = figure.data
    assert [list(row) for row in heat.z] == [[None, 0.0], [5.0, None]]
    assert (heat.zmin, heat.zmax) == (0, 5)  # without the upper end, the scale would begin at the smallest value
    assert "grey where nothing was recorded" in figure.layout.title.text
    assert figure.layout.plot_bgcolor == "rgba(128,128,128,.16)"
