"""The simulated collector: the pyACL collector, driven against the embedded simulated NPU."""

from __future__ import annotations

from types import ModuleType

from npuprof.collectors.acl import AclCollector


class SimulatorCollector(AclCollector):
    """Collects from the embedded simulated NPU. What it records is always labelled as simulated."""

    name = "simulator"
    simulated = True

    def load(self) -> ModuleType:
        """Give the simulated ``acl``."""
        from npuprof.simulator import acl

        return acl
