"""Which collector a session uses, and why."""

from __future__ import annotations

from typing import NamedTuple

from npuprof.collectors import acl
from npuprof.collectors.base import Collector
from npuprof.collectors.simulator import SimulatorCollector


class Choice(NamedTuple):
    """A collector and the reason for choosing it, in words for the user."""

    collector: Collector
    reason: str


def choose(name: str) -> Choice:
    """Choose a collector by its name, or the one that fits this machine for ``auto``.

    ``auto`` prefers a real NPU. It never falls back to the simulated one while pyACL is installed: a
    broken installation is an error to mend, not a reason to show simulated times.
    """
    if name == "simulator":
        return Choice(SimulatorCollector(), "asked for")
    if name == "acl":
        return Choice(acl.AclCollector(), "asked for")
    if acl.is_installed():
        return Choice(acl.AclCollector(), "pyACL is installed")
    return Choice(SimulatorCollector(), "no native front end is installed on this machine, so the NPU is simulated")
