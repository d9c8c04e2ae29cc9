"""What a result of MindSpore has that one of torch_npu has not; both are one tree of files, read by one source.

:mod:`.trace` sorts the slices of its timeline, :mod:`.kernel_names` knows kernels under the names of the operators
that launched them, :mod:`.pipeline` reads the sums over its data pipeline. The text files of its FRAMEWORK folder are
:mod:`npuprof.sources.framework.mindspore`.

Source: formats/results.md section 1.2.
"""

from __future__ import annotations

from npuprof.sources.mindspore.kernel_names import take_task_names
from npuprof.sources.mindspore.pipeline import holds_pipeline, read_pipeline_summary
from npuprof.sources.mindspore.trace import is_mindspore, sort_out

__all__ = ["COLLECTOR", "holds_pipeline", "is_mindspore", "read_pipeline_summary", "sort_out", "take_task_names"]

COLLECTOR = "mindspore"
