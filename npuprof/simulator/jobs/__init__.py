"""Simulated jobs: pipeline, data and tensor parallel training of N ranks, with planted faults.

``simulate(SIZES[64], Faults(slow_rank=17), seed=3)`` plays a job in memory; :mod:`.frames` makes tables of it, as a
set of ranks has them, and :mod:`.text` writes it as result folders of torch_npu, which ``npuprof.load_set`` opens and
calls simulated. The same seed without a fault is the same job, with the same jitter, so that ``job.duration_ns`` tells
what the fault costs.
"""

from npuprof.simulator.jobs.model import SIZES, Faults, Job, Plan, simulate

__all__ = ["SIZES", "Faults", "Job", "Plan", "simulate"]
