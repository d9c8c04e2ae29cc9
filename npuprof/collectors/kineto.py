"""The collector of torch's profiler (Kineto): PyTorch operators, and a GPU if there is one; no NPU.

One object records one window; its trace is written into the recording.
Source: the documentation of ``torch.profiler`` (torch 2.1 to 2.13).
"""

from __future__ import annotations

import importlib
import itertools
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from npuprof.collectors import capabilities
from npuprof.collectors.other_profilers import STARTS_OF_TORCH, OtherProfilers
from npuprof.errors import CollectorError, FrontEndAbsentError, OptionsError
from npuprof.files import atomic
from npuprof.options import Options
from npuprof.recordings.recording import BREAKS_JSON, FLOPS_FILE_NAME, TRACE_FILE_NAME


class KinetoCollector:
    """Collects with ``torch.profiler``.

    Attributes
    ----------
    all_threads
        Whether it records the operators of all threads, not only of the one that starts it, where this torch can. Any
        thread may stop it then.
    """

    name = "kineto"
    simulated = False

    def __init__(self) -> None:
        self.all_threads = self.stops_on_any_thread = False
        self._torch: ModuleType | None = None
        self._profile: Any = None
        self._directory = Path()
        self._records = False
        self._first_step = 0
        self._marks = False
        self._ranges: dict[int, Any] = {}  # open ranges by our handle
        self._handles = itertools.count(1)
        self._others = OtherProfilers(self.stop, "torch")

    def load(self) -> ModuleType:
        """Import torch."""
        try:
            torch = importlib.import_module("torch")
            importlib.import_module("torch.profiler")
        except (ImportError, OSError, RuntimeError) as error:
            raise FrontEndAbsentError(
                f"torch cannot be imported ({error}): `pip install torch`. Where it fails because of torch_npu, which "
                "it loads by itself, set TORCH_DEVICE_BACKEND_AUTOLOAD=0 before the process starts"
            ) from error
        return torch

    def check(self, options: Options) -> None:
        """Raise an error for options that torch's profiler does not support."""
        capabilities.check(self.name, options)
        torch = self.load()
        if "cpu" not in options.activities:
            if options.shapes:
                raise OptionsError(
                    "shapes are recorded with operators: add cpu to activities, or leave shapes out", "shapes"
                )
            if not torch.cuda.is_available():
                raise OptionsError("torch finds no GPU on this machine: add cpu to activities", "activities")
        _refuse_second(torch)

    def drives(self, options: Options) -> bool:
        """Return True: the ``cpu`` activity consists of torch's operators."""
        return True

    def records_stacks(self, options: Options) -> bool:
        """Return whether torch's tracer records every Python call; it does not for modules alone."""
        return options.stacks

    def warmup(self, options: Options, directory: Path) -> None:
        """Prepare torch's tracing as its schedules do; a failure undoes it."""
        self._open(options)

    def start(self, options: Options, directory: Path) -> None:
        """Start collecting; a failure leaves nothing running."""
        self._records = True
        if (profile := self._profile) is None:
            self._open(options)
        else:
            self._others.unwatch()
            with self._ended_on_failure():
                profile.step_num, self._first_step = self._first_step - 1, 0
                profile.step()
            self._others.watch(*STARTS_OF_TORCH, records=self._records)
        self._directory = directory
        self._marks = options.marks

    def _open(self, options: Options) -> None:
        """Create the vendor's object, and start recording or warming up."""
        self._torch = torch = self.load()
        _refuse_second(torch)
        kinds = torch.profiler.ProfilerActivity
        wanted = {"cpu": kinds.CPU, "gpu": kinds.CUDA}
        present = [wanted[name] for name in options.activities if name == "cpu" or torch.cuda.is_available()]
        actions = torch.profiler.ProfilerAction
        with self._ended_on_failure():
            self._profile = torch.profiler.profile(
                activities=present,
                # With any schedule, torch marks the steps.
                schedule=lambda _: actions.RECORD if self._records else actions.WARMUP,
                record_shapes=options.shapes,
                profile_memory=options.memory,
                with_stack=options.stacks,
                with_flops=options.flops,
                with_modules=options.modules,
                **self._of_all_threads(torch),
            )
            self._profile.step_num, self._first_step = self._first_step, 0
            self._profile.start()
        self._others.watch(*STARTS_OF_TORCH, records=self._records)

    def _of_all_threads(self, torch: ModuleType) -> dict[str, Any]:
        """Return the argument that records all threads; empty if that is not wanted, or this torch has none."""
        if not self.all_threads:
            return {}
        try:
            settings = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
        except (AttributeError, TypeError):  # an older torch
            return {}
        self.stops_on_any_thread = True
        return {"experimental_config": settings}

    @contextmanager
    def _ended_on_failure(self) -> Iterator[None]:
        with ExitStack() as undo:
            undo.callback(self._abandon)
            try:
                yield
            except Exception as error:
                raise CollectorError(
                    f"torch.profiler.profile cannot be started ({error}): check that no other profiler is running"
                ) from error
            undo.pop_all()

    def _abandon(self) -> None:
        profile, self._profile, self._records = self._profile, None, False
        if profile is not None:
            with suppress(Exception):  # the failure of the start is raised instead
                profile.stop()

    def stop(self) -> None:
        """Stop collecting and write the trace."""
        self._marks = False
        if lack := self._others.unwatch():
            raise CollectorError(lack)
        if not self._records:  # at most warmed up
            self._abandon()
            return
        profile, self._profile, self._records = self._profile, None, False
        if profile is None or self._torch is None:
            return
        for handle in list(self._ranges):
            self.range_stop(handle)
        try:
            # Of a profiler of all threads, torch does not tell whether it is enabled.
            if not self.stops_on_any_thread and not self._torch.autograd._profiler_enabled():
                raise RuntimeError("other code has ended it")
            profile.stop()
            profile.export_chrome_trace(str(self._directory / TRACE_FILE_NAME))
            if profile.with_flops:
                _write_flops(profile, self._directory / FLOPS_FILE_NAME)
        except Exception as error:
            raise CollectorError(f"torch.profiler.profile cannot be stopped, or write its trace ({error})") from error

    def step(self, number: int | None) -> None:
        """End the ``ProfilerStep#`` of the trace, and begin the next one."""
        if not self._records:
            self._first_step = number or 0
        elif number is not None:
            self._profile.step()
        elif (opened := self._profile.step_rec_fn) is not None:  # as torch's step() does before a stop
            opened.__exit__(None, None, None)
            self._profile.step_rec_fn = None

    def mark(self, message: str, domain: str = "", stream: Any = None) -> None:
        """Record a point in time as an empty range."""
        if self._marks:
            self.range_stop(self.range_start(message))

    def range_start(self, message: str, domain: str = "") -> int:
        """Open a range and return its handle; 0 if markers are not collected."""
        if not self._marks or self._torch is None:
            return 0
        opened = self._torch.profiler.record_function(BREAKS_JSON.sub("'", message))
        opened.__enter__()
        handle = next(self._handles)
        self._ranges[handle] = opened
        return handle

    def range_stop(self, handle: int) -> None:
        """Close a range; ignore one that ended with the session."""
        if (opened := self._ranges.pop(handle, None)) is not None:
            opened.__exit__(None, None, None)

    def versions(self) -> Mapping[str, str]:
        """Return the versions of torch and CUDA, and the GPU."""
        versions: dict[str, str] = {}
        if (torch := self._torch) is not None:
            versions["torch"] = str(torch.__version__)
            if torch.version.cuda:
                versions["cuda"] = str(torch.version.cuda)
            versions["chip"] = str(torch.cuda.get_device_name()) if torch.cuda.is_available() else "no GPU"
        return versions


def _write_flops(profile: Any, path: Path) -> None:
    """Write the estimated FLOPs, which the trace lacks, by the operator's id in the trace."""
    events = profile.profiler.kineto_results.events()
    known = [(event.correlation_id(), event.flops()) for event in events if event.flops() > 0]
    plain = {"external_id": [external_id for external_id, _ in known], "flops": [flops for _, flops in known]}
    atomic.write(path, json.dumps(plain).encode())


def _refuse_second(torch: ModuleType) -> None:
    if torch.autograd._profiler_enabled():
        raise CollectorError(
            "a profiler of torch is collecting in this process already, which can have only one: stop it first"
        )
