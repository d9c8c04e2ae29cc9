"""The TensorFlow collector: the window ``npu_bridge.profiler.profiler.Profiler`` around the profiled code.

The window records what ``tf.Session.run`` does on the NPU. Everything else can be collected only over a whole session,
by its configuration: see :mod:`npuprof.tensorflow`.

Source: collectors/FRONTENDS.md section 4; "Collection Operations"; the TF Adapter's page on ``Profiler``.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from npuprof.collectors import capabilities
from npuprof.errors import CollectorError, FrontEndAbsentError, NpuprofWarning, OptionsError
from npuprof.options import Options
from npuprof.words.commands import shell_command

LEVELS = {0: "L0", 1: "L1", 2: "L2"}
METRICS = (
    "ArithmeticUtilization",
    "PipeUtilization",
    "Memory",
    "MemoryL0",
    "MemoryUB",
    "ResourceConflictRatio",
    "L2Cache",
)
"""The metrics that the window can count."""

_IN_WINDOW = frozenset(
    ("level", "aic_metrics", "activities", "stacks", "shapes", "marks", "output", "name", "collector")
)
_WHOLE = (
    "It begins with the next session: create it with the configuration of npuprof.tensorflow.session_config, "
    "run_config or global_options"
)
# The window cannot be used while one of these variables makes TensorFlow collect a whole session; GE has its own.
_WHOLE_SESSION = ("PROFILING_MODE", "GE_PROFILING_MODE")


class TensorFlowCollector:
    """Collects with the window of Ascend's TensorFlow adapter."""

    name = "tensorflow"
    simulated = False
    stops_on_any_thread = False

    def __init__(self) -> None:
        self._window: Any = None
        self._directory: Path | None = None
        self._warned_of_marks = False

    def load(self) -> Any:
        """Import the class of the window."""
        try:
            return importlib.import_module("npu_bridge.profiler.profiler").Profiler
        except (ImportError, OSError, RuntimeError, AttributeError) as error:
            reason = error
        try:  # the adapter of TensorFlow 2 has the class in its module for TensorFlow 1 code
            return importlib.import_module("npu_device.compat.v1.npu_init").profiler.Profiler
        except (ImportError, OSError, RuntimeError, AttributeError):
            raise FrontEndAbsentError(
                f"npu_bridge.profiler.profiler cannot be imported ({reason}): install the TensorFlow adapter that fits "
                "your CANN toolkit, and `source set_env.sh`"
            ) from reason

    def check(self, options: Options) -> None:
        """Raise an error for options that the window does not support."""
        capabilities.check(self.name, options)
        refuse_beyond_window(options)
        if not self.drives(options):
            return
        self.load()
        for variable in _WHOLE_SESSION:
            if os.environ.get(variable, "false").lower() not in ("", "false"):
                raise CollectorError(
                    f"{variable} is set, by which TensorFlow collects over the whole session and has no window beside: "
                    f"load what it wrote with npuprof.load, or `{shell_command('unset', variable)}` and start the "
                    "process anew"
                )

    def drives(self, options: Options) -> bool:
        """Return whether the device is to be profiled; the window records nothing else."""
        return "npu" in options.activities

    def records_stacks(self, options: Options) -> bool:
        """Return False: the window records no Python calls."""
        return False

    def warmup(self, options: Options, directory: Path) -> None:
        """Import the class of the window; nothing else can be prepared."""
        self.load()

    def start(self, options: Options, directory: Path) -> None:
        """Open the window, which writes into `directory`."""
        make = self.load()
        metrics = "" if options.aic_metrics == "none" else str(options.aic_metrics)
        try:
            window = make(level=LEVELS[int(options.level)], aic_metrics=metrics, output_path=str(directory))
            window.__enter__()
        except Exception as error:
            raise CollectorError(
                f"npu_bridge's Profiler cannot be opened ({error}): it needs a tf.Session on the NPU, one window at a "
                "time, and no profiling_mode or enable_profiling in the session's configuration"
            ) from error
        self._window, self._directory, self._warned_of_marks = window, directory, False

    def stop(self) -> None:
        """Close the window."""
        window, directory = self._window, self._directory
        self._window = self._directory = None
        if window is None or directory is None:
            return
        try:
            window.__exit__(None, None, None)
        except Exception as error:
            raise CollectorError(f"npu_bridge's Profiler cannot be closed ({error})") from error
        if not any(directory.glob("PROF_*")):
            raise CollectorError(
                "npu_bridge's Profiler wrote nothing: it records what tf.Session.run does on the NPU while it is open, "
                f"and nothing else. For Estimator, Keras and eager code, collect over a whole session. {_WHOLE}"
            )

    def step(self, number: int | None) -> None:
        """Do nothing: the window has no iterations, and the session records them."""

    def mark(self, message: str, domain: str = "", stream: Any = None) -> None:
        """Warn once per run that the window records no markers."""
        if self._window is not None and not self._warned_of_marks:
            self._warned_of_marks = True
            warnings.warn(
                "npu_bridge's Profiler records no markers: npuprof.mark and npuprof.range have no effect in this run",
                NpuprofWarning,
                stacklevel=3,
            )

    def range_start(self, message: str, domain: str = "") -> int:
        """Return 0: markers are not collected."""
        self.mark(message, domain)
        return 0

    def range_stop(self, handle: int) -> None:
        """Do nothing: there are no ranges."""

    def versions(self) -> Mapping[str, str]:
        """Return the versions of TensorFlow and the adapter, if imported."""
        names = ("tensorflow", "npu_bridge", "npu_device")
        versions = {name: getattr(sys.modules.get(name), "__version__", None) for name in names}
        return {name: str(version) for name, version in versions.items() if version is not None}


def refuse_beyond_window(options: Options) -> None:
    """Raise an OptionsError for options that the window would ignore, or metrics that it would count unrequested."""
    if "npu" not in options.activities:
        if options.shapes:
            raise OptionsError("TensorFlow's window records shapes with the device: add npu to activities", "shapes")
        return
    if options.level == "none":
        raise OptionsError(f"TensorFlow's window records no markers, so level none is nothing to it. {_WHOLE}", "level")
    if options.level == 0 and options.shapes:
        raise OptionsError("CANN records shapes from level 1 on: set level 1 or 2, or leave shapes out", "shapes")
    if options.level != 0 and options.aic_metrics not in METRICS:
        asked = "counts PipeUtilization where nothing else" if options.aic_metrics == "none" else "does not count what"
        raise OptionsError(
            f"TensorFlow's window {asked} is asked for: choose aic_metrics of {', '.join(METRICS)}", "aic_metrics"
        )
    usual = Options(level=options.level, activities=options.activities, collector=options.collector)
    for field in fields(Options):
        if field.name not in _IN_WINDOW and getattr(options, field.name) != getattr(usual, field.name):
            raise OptionsError(
                f"TensorFlow collects {field.name} over a whole session only, and not in a window of it. {_WHOLE}",
                field.name,
            )
