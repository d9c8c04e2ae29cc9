"""What a result of MindSpore has that one of torch_npu has not; both are one tree of files, read by one source.

:mod:`.kernel_names` knows kernels under the names of the operators that launched them, :mod:`.pipeline` reads the sums
over its data pipeline. The slices of its timeline are sorted by :mod:`npuprof.sources.trace.mindspore`, the text files
of its FRAMEWORK folder are :mod:`npuprof.sources.framework.mindspore`.

Source: sources/RESULTS.md section 1.2.
"""

from __future__ import annotations

from npuprof.sources.mindspore.kernel_names import take_task_names
from npuprof.sources.mindspore.pipeline import holds_pipeline, read_pipeline_summary

__all__ = ["COLLECTOR", "holds_pipeline", "read_pipeline_summary", "take_task_names"]

COLLECTOR = "mindspore"
