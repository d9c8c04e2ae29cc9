"""Which rank this process is, by what the launchers tell their processes."""

from __future__ import annotations

import os

# torchrun, Ascend's launchers and MindSpore, Open MPI, MPICH and its kin, Slurm.
VARIABLES = ("RANK", "RANK_ID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID")
"""What tells a process its rank, the first that is set."""


def rank() -> int:
    """Return this process's rank; 0 where no launcher tells."""
    for name in VARIABLES:
        value = os.environ.get(name, "")
        if value.isascii() and value.isdecimal():
            return int(value)
    return 0
