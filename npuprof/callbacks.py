"""Callbacks for ``mindspore.train.Model`` that profile steps, epochs, or the steps that a file requests.

MindSpore only calls subclasses of its ``Callback``. Objects of these classes become subclass instances when they are
created, so that this module does not need MindSpore; without it they can be used in other training loops.

Source: MindSpore's page ``mindspore.Profiler`` (start and stop) and its tutorial "Preparing the Training Script".
"""

from __future__ import annotations

import sys
import warnings
from contextlib import suppress
from os import PathLike
from typing import TYPE_CHECKING, Any

from npuprof import dynamic
from npuprof.errors import NpuprofError, NpuprofWarning, OptionsError, SessionError
from npuprof.options import OptionValues, shows_options

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from npuprof.session.session import Session


class _Callback:
    """An object that is also a MindSpore callback if MindSpore is imported when it is created."""

    def __new__(cls, *_: Any, **__: Any) -> Any:
        """Create the object, with MindSpore's class as a base if it is imported."""
        base = getattr(sys.modules.get("mindspore"), "Callback", None)
        if base is None or issubclass(cls, base):
            return object.__new__(cls)
        return object.__new__(type(cls.__name__, (cls, base), {"__module__": cls.__module__, "__doc__": cls.__doc__}))


class _StopAt(_Callback):
    """Starts a session when a counter reaches one number, and stops it at another."""

    _counts: str  # the attribute of MindSpore's run context that holds the counter

    def __init__(self, start: int, stop: int, profiler: Session | None, options: OptionValues) -> None:
        for name, value, least in (("start", start, 1), ("stop", stop, start)):
            if type(value) is not int or value < least:
                raise OptionsError(
                    f"the {name} of {type(self).__name__} must be a whole number of at least {least}, not {value!r}: "
                    "MindSpore counts from 1"
                )
        if profiler is not None and options:
            raise OptionsError(f"{type(self).__name__} takes either a profiler or options, not both")
        super().__init__()
        if profiler is None:
            from npuprof.session.session import profile

            profiler = profile(start_profile=False, **options)
        self.start, self.stop, self.profiler = start, stop, profiler
        self._begun = False
        self._seen = 0

    def on_train_begin(self, run_context: Any) -> None:  # noqa: ARG002 - MindSpore's Callback has it
        """Raise an error for unsupported options before the first step."""
        self.profiler.collector.check(self.profiler.options)

    def _begin(self, run_context: Any) -> None:
        self._seen = self._count(run_context)
        # With data sinking, the counter advances by epochs: it may skip `start`.
        if self._begun or not self.start <= self._seen <= self.stop:
            return
        self._begun = True
        try:
            self.profiler.start(self._step_number(run_context))
        except NpuprofError as error:
            _warn(f"{type(self).__name__} profiles nothing, and training continues: {error}")

    def _finish(self, run_context: Any) -> None:
        self._seen = self._count(run_context)
        if self._seen >= self.stop:
            self._stop()

    def _stop(self) -> None:
        if self._begun and self.profiler.active:
            with suppress(SessionError):  # the schedule recorded no step, for which there was a warning
                self.profiler.stop()

    def _step_number(self, run_context: Any) -> int:  # noqa: ARG002 - epochs need it
        """Return MindSpore's number of the step that starts now."""
        return self._seen

    def _count(self, run_context: Any) -> int:
        return int(getattr(run_context.original_args(), self._counts))

    def on_train_end(self, run_context: Any) -> None:  # noqa: ARG002 - MindSpore's Callback has it
        """Stop a running session, and warn if the start was never reached."""
        self._stop()
        if not self._begun:
            _warn(f"{type(self).__name__} profiled nothing: the training ended at {self._seen}, before {self.start}")


def _warn(message: str) -> None:
    warnings.warn(message, NpuprofWarning, stacklevel=4)


class StopAtStep(_StopAt):
    """Profiles the steps from one number to another, both included; for training without data sinking.

    Parameters
    ----------
    start_step, stop_step
        Step numbers, counted from 1.
    profiler
        A session from ``npuprof.profile(start_profile=False)``; by default, a new one with `options`. Its ``result``
        is the run.
    **options
        The fields of :class:`npuprof.options.Options`.

    Raises
    ------
    OptionsError
        If a step number or an option has a wrong value.

    Examples
    --------
    >>> callback = npuprof.callbacks.StopAtStep(10, 12, level=1)
    >>> model.train(1, data, callbacks=[callback])
    >>> run = callback.profiler.result
    """

    _counts = "cur_step_num"

    @shows_options
    def __init__(
        self, start_step: int, stop_step: int, profiler: Session | None = None, **options: Unpack[OptionValues]
    ) -> None:
        super().__init__(start_step, stop_step, profiler, options)

    def on_train_step_begin(self, run_context: Any) -> None:
        """Start before the first profiled step."""
        self._begin(run_context)

    def on_train_step_end(self, run_context: Any) -> None:
        """End a step, and stop after the last profiled step."""
        if self._begun and self.profiler.active:
            self.profiler.step()
        self._finish(run_context)


class StopAtEpoch(_StopAt):
    """Profiles the epochs from one number to another, both included; for training with data sinking.

    Parameters
    ----------
    start_epoch, stop_epoch
        Epoch numbers, counted from 1.
    profiler, **options
        See :class:`StopAtStep`.

    Raises
    ------
    OptionsError
        If an epoch number or an option has a wrong value.
    """

    _counts = "cur_epoch_num"

    def _step_number(self, run_context: Any) -> int:
        return int(getattr(run_context.original_args(), "cur_step_num", 0)) + 1  # one after the last step that ended

    @shows_options
    def __init__(
        self, start_epoch: int, stop_epoch: int, profiler: Session | None = None, **options: Unpack[OptionValues]
    ) -> None:
        super().__init__(start_epoch, stop_epoch, profiler, options)

    def on_train_epoch_begin(self, run_context: Any) -> None:
        """Start before the first profiled epoch."""
        self._begin(run_context)

    def on_train_epoch_end(self, run_context: Any) -> None:
        """Stop after the last profiled epoch."""
        self._finish(run_context)


class DynamicMonitor(_Callback):
    """Profiles the steps that a file requests during training; see :mod:`npuprof.dynamic`.

    Parameters
    ----------
    cfg_path
        The directory of ``profiler_config.json``; if the file is missing, it is created at once with MindSpore's keys.
    output_path
        The directory of recordings if the file says ``./``.
    collector
        The front end, as in :class:`npuprof.options.Options`.

    Raises
    ------
    OptionsError, SourceError
        See :func:`npuprof.dynamic.init`.
    """

    def __init__(
        self,
        cfg_path: str | PathLike[str],
        output_path: str | PathLike[str] = "./dyn_profile_data",
        *,
        collector: str = "auto",
    ) -> None:
        super().__init__()
        self.cfg_path, self.output_path, self.collector = cfg_path, output_path, collector
        self._watch()

    def _watch(self) -> None:
        dynamic.init(self.cfg_path, keys="mindspore", collector=self.collector, output=self.output_path)

    def on_train_begin(self, run_context: Any) -> None:  # noqa: ARG002 - MindSpore's Callback has it
        """Start watching again, and count the steps of this training from 1."""
        self._watch()

    def on_train_step_end(self, run_context: Any) -> None:  # noqa: ARG002 - as above
        """End a step, and check the file for changes."""
        dynamic.step()

    def on_train_end(self, run_context: Any) -> None:  # noqa: ARG002 - as above
        """Stop a running session, and stop watching."""
        dynamic.close()
