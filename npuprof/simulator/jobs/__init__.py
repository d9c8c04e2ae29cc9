"""Simulated jobs: pipeline, data and tensor parallel training of N ranks, with planted faults.

``simulate(SIZES[64], Faults(slow_ranks={17: 0.08}), seed=3)`` simulates a job in memory; :mod:`.frames` builds its
tables, in the form of a set of ranks, and :mod:`.text` writes it as result folders of torch_npu, which
``npuprof.load_set`` opens and labels as simulated. The same seed without a fault gives the same job with the same
jitter, so ``job.duration_ns`` shows the cost of the fault.
"""

from npuprof.simulator.jobs.model import SIZES, Faults, Job, Plan, simulate

__all__ = ["SIZES", "Faults", "Job", "Plan", "simulate"]
