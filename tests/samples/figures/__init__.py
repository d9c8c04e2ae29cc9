"""Figures of the published samples, which npuprof must agree with, computed without it, by the standard library alone.

``python -m tests.samples`` writes them beside the samples as ``TRUTH.json``. Times are exact: text of microseconds
becomes a `Decimal`, never a float.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.samples.figures import database, text
from tests.samples.figures.timeline import timeline

_TORCH_NPU = r"torch_npu/(text|llm_pp2dp2)/.*/"
_READERS: Mapping[str, Callable[[Path], Any]] = {
    rf"{_TORCH_NPU}kernel_details\.csv|msprof/.*/op_summary_\d+\.csv": text.kernels,
    rf"{_TORCH_NPU}(api|op)_statistic\.csv|msprof/.*/op_statistic_\d+\.csv": text.statistic,
    rf"{_TORCH_NPU}memory_record\.csv": text.memory_record,
    rf"{_TORCH_NPU}npu_module_mem\.csv": text.module_memory,
    rf"{_TORCH_NPU}operator_memory\.csv": text.operator_memory,
    rf"{_TORCH_NPU}operator_details\.csv": text.operator_details,
    rf"{_TORCH_NPU}l2_cache\.csv": text.cache,
    rf"{_TORCH_NPU}step_trace_time\.csv|cluster/.*/cluster_step_trace_time\.csv": text.steps,
    rf"{_TORCH_NPU}communication\.json": text.communication,
    rf"{_TORCH_NPU}communication_matrix\.json": text.matrix,
    rf"{_TORCH_NPU}trace_view\.json|torch_npu/cann7_2023/trace_view\.json": timeline,
    r"msprof/cann6_graph_mode/.*/timeline/\w+\.json": timeline,
    r"torch_npu/(db|llm_pp2dp2)/.*/analysis\.db": database.analysis,
    r"torch_npu/db/.*/ascend_pytorch_profiler_\d+\.db": database.profile,
}
"""By a regular expression of paths in the folder of samples: what computes the figures of such a file."""


def of_folder(folder: Path) -> dict[str, Any]:
    """Return the figures of the published files in a folder of samples, by path; one of any other kind has none."""
    figures = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder).as_posix()
        for pattern, read in _READERS.items():
            if re.fullmatch(pattern, name):
                figures[name] = read(path)
    return figures
