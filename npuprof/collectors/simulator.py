"""The simulated collector: the pyACL collector, driven against the embedded simulated NPU."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from npuprof.collectors.acl import AclCollector
from npuprof.options import Options


class SimulatorCollector(AclCollector):
    """Collects from the embedded simulated NPU. What it records is always labelled as simulated."""

    name = "simulator"
    simulated = True

    def load(self) -> ModuleType:
        """Return the simulated ``acl``."""
        from npuprof.simulator import acl

        return acl

    def start(self, options: Options, directory: Path) -> None:
        """Start collecting; a simulated framework's operators are left out where only the device is asked for."""
        super().start(options, directory)
        from npuprof import simulator

        recorder = simulator.current().recorder
        if recorder is not None and "cpu" not in options.activities:
            recorder.without_framework()
