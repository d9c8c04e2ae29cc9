from __future__ import annotations

import numpy as np
import pytest

from npuprof.sources.raw.device.metrics import METRICS, metric_columns


def _columns(core: str, events: list[int], values: list[int]) -> dict[str, float]:
    counters = np.array([values + [0] * (8 - len(values))])
    found = metric_columns(core, events, counters, np.array([1e6]), np.array([5e5]), np.array([2000.0]))
    return {name: float(column[0]) for name, column in found.items()}


def test_a_pipe_has_a_share_of_cycles_and_a_time() -> None:
    assert _columns("aic", [0xA], [250_000]) == {"aic_mac_time_ns": 125_000, "aic_mac_ratio": 0.25}


def test_events_add_up_where_the_metric_says_so() -> None:
    columns = _columns("aic", [0x416, 0x417], [100_000, 300_000])
    assert columns["aic_mac_ratio"] == pytest.approx(0.4)


def test_bandwidth_is_bytes_over_the_records_time() -> None:
    # 1e6 cycles at 2 GHz are 0.5 ms
    assert _columns("aiv", [0x15], [1 << 20])["aiv_ub_read_bw_gb_s"] == pytest.approx(2**20 * 1024 / 5e-4 / 2**33)


def test_operations_are_weighed_counts() -> None:
    assert _columns("aic", [0x49, 0x4A], [3, 2])["aic_cube_fops"] == 8192 * 3 + 16384 * 2


def test_a_quotient_without_requests_is_absent() -> None:
    assert np.isnan(_columns("aic", [0x54, 0x55], [0, 0])["aic_icache_miss_rate"])


def test_a_core_has_only_its_own_metrics() -> None:
    assert not _columns("aiv", [0xA], [1])


@pytest.mark.parametrize("core", ["aic", "aiv"])
def test_no_two_metrics_of_one_table_share_a_column(core: str) -> None:
    # Both forms of a name exist (two generations of events), never in one list of eight.
    names = [(metric.name, frozenset(metric.events)) for metric in METRICS if core in metric.cores]
    assert len(names) == len(set(names))
