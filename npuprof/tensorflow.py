"""Collecting over a whole TensorFlow session: the vendor's three inlets, and the environment, from our options.

A session that exists already is not changed: collection begins with the next one that is made, and ends with it.
What it wrote is below ``options.output`` as ``PROF_*``, for :func:`npuprof.load`. To profile a part of a session,
such as a cell, ``npuprof.profile(collector="tensorflow")`` opens the adapter's window.

Source: collectors/FRONTENDS.md section 4; "Collection Operations".
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from typing import Any

from npuprof.collectors import tensorflow_options
from npuprof.collectors.tensorflow_options import check as check_profiling_options
from npuprof.errors import FrontEndAbsentError, NpuprofError, NpuprofWarning, OptionsError
from npuprof.options import Options

__all__ = [
    "check_profiling_options",
    "environment",
    "global_options",
    "profiling_config",
    "profiling_options",
    "run_config",
    "session_config",
]

_OPTIMIZER = "NpuOptimizer"
_CONFIG_MODULE = "npu_bridge.estimator.npu.npu_config"


def profiling_options(options: Options | None = None, *, chip: str = "", training: bool = True) -> str:
    """Return the JSON text that all inlets take.

    Parameters
    ----------
    options
        What to collect; the defaults when not given. The directory is made if it does not exist, as the vendor's
        pages ask for.
    chip
        The name of the chip, such as ``Ascend910B3``, so that only the metrics that it counts are allowed.
    training
        Whether a training session is meant, rather than online inference.

    Raises
    ------
    OptionsError
        If TensorFlow cannot collect something that was asked for.
    NpuprofError
        If the directory cannot be made.
    """
    options = options if options is not None else Options()
    text = tensorflow_options.build(options, chip, training=training)
    try:
        options.output.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise NpuprofError(
            f"{options.output} cannot be made ({error.strerror or error}): choose another output"
        ) from error
    return text


def profiling_config(options: Options | None = None, *, chip: str = "") -> Any:
    """Make the ``ProfilingConfig`` for an Estimator's ``NPURunConfig``.

    Raises
    ------
    FrontEndAbsentError
        If the TensorFlow adapter cannot be imported.
    OptionsError, NpuprofError
        As :func:`profiling_options`.
    """
    text = profiling_options(options, chip=chip)
    module = _import(_CONFIG_MODULE)
    _tell_of_existing_session()
    return module.ProfilingConfig(enable_profiling=True, profiling_options=text)


def run_config(options: Options | None = None, *, chip: str = "", **arguments: Any) -> Any:
    """Make an ``NPURunConfig`` whose Estimator collects.

    Parameters
    ----------
    options, chip
        As :func:`profiling_options` takes them.
    **arguments
        Of ``NPURunConfig``, such as ``session_config``.

    Raises
    ------
    OptionsError
        If `arguments` hold a ``profiling_config``, or as :func:`profiling_options`.
    FrontEndAbsentError, NpuprofError
        As :func:`profiling_config`.
    """
    if "profiling_config" in arguments:
        raise OptionsError("profiling_config is what run_config makes: leave it out, or make NPURunConfig yourself")
    return _import(_CONFIG_MODULE).NPURunConfig(profiling_config=profiling_config(options, chip=chip), **arguments)


def session_config(options: Options | None = None, config: Any = None, *, chip: str = "", training: bool = True) -> Any:
    """Make a ``ConfigProto`` for ``tf.Session(config=...)``, or let one of the user's collect.

    Parameters
    ----------
    options, chip, training
        As :func:`profiling_options` takes them.
    config
        The configuration to change; a new one when not given. Its ``NpuOptimizer`` is used if it has one.

    Raises
    ------
    FrontEndAbsentError
        If TensorFlow cannot be imported.
    OptionsError, NpuprofError
        As :func:`profiling_options`.
    """
    text = profiling_options(options, chip=chip, training=training)
    config = config if config is not None else _import("tensorflow").compat.v1.ConfigProto()
    rewriting = config.graph_options.rewrite_options
    optimizer = next((one for one in rewriting.custom_optimizers if one.name == _OPTIMIZER), None)
    if optimizer is None:
        optimizer = rewriting.custom_optimizers.add()
        optimizer.name = _OPTIMIZER
        optimizer.parameter_map["use_off_line"].b = True
    optimizer.parameter_map["profiling_mode"].b = True
    optimizer.parameter_map["profiling_options"].s = text.encode()
    rewriting.remapping = _import("tensorflow.core.protobuf.rewriter_config_pb2").RewriterConfig.OFF
    _tell_of_existing_session()
    return config


def global_options(options: Options | None = None, *, chip: str = "", training: bool = True) -> Any:
    """Set ``npu_device.global_options()`` of TensorFlow 2, and give them; to be called before ``npu_device.open()``.

    Raises
    ------
    FrontEndAbsentError
        If the TensorFlow 2 adapter cannot be imported.
    OptionsError, NpuprofError
        As :func:`profiling_options`.
    """
    text = profiling_options(options, chip=chip, training=training)
    found = _import("npu_device").global_options()
    found.profiling_config.enable_profiling = True
    found.profiling_config.profiling_options = text
    return found


def environment(
    options: Options | None = None, *, chip: str = "", training: bool = True, graph_engine: bool = False
) -> dict[str, str]:
    """Return the variables by which a process that starts with them collects, without a change to its code.

    Parameters
    ----------
    options, chip, training
        As :func:`profiling_options` takes them.
    graph_engine
        Whether to give the names that GE reads, rather than those of the TensorFlow adapter.

    Raises
    ------
    OptionsError, NpuprofError
        As :func:`profiling_options`.

    Notes
    -----
    What the script itself says in ``profiling_mode`` or ``enable_profiling`` comes before the variables.
    """
    prefix = "GE_" if graph_engine else ""
    text = profiling_options(options, chip=chip, training=training)
    return {f"{prefix}PROFILING_MODE": "true", f"{prefix}PROFILING_OPTIONS": text}


def _tell_of_existing_session() -> None:
    v1 = getattr(getattr(sys.modules.get("tensorflow"), "compat", None), "v1", None)
    session = getattr(v1, "get_default_session", lambda: None)()
    if session is not None:
        warnings.warn(
            "a TensorFlow session exists already, and is not collected from: collection begins with the next session "
            "that is made with this configuration",
            NpuprofWarning,
            stacklevel=3,
        )
    if os.environ.get("PROFILING_MODE"):
        warnings.warn(
            "PROFILING_MODE is set too: this configuration comes before it",
            NpuprofWarning,
            stacklevel=3,
        )


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except (ImportError, OSError, RuntimeError) as error:
        raise FrontEndAbsentError(
            f"{name} cannot be imported ({error}): install TensorFlow and its adapter for Ascend that fit your CANN "
            "toolkit, and `source set_env.sh`. npuprof.tensorflow.environment(options) needs neither"
        ) from error
