"""Collection over a whole TensorFlow session: the vendor's three configurations, and environment variables.

An existing session is not changed: collection starts and ends with the next session. Its result is written below
``options.output`` as ``PROF_*``, for :func:`npuprof.load`. To profile a part of a session, such as a cell, use
the adapter's window: ``npuprof.profile(collector="tensorflow")``.

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
    """Return the profiling options as JSON text, the same for all configurations.

    Parameters
    ----------
    options
        The options; by default ``Options()``. Their output directory is created, as the vendor's pages require. Shapes
        come with the levels 1 and 2, so ``shapes`` adds nothing to them.
    chip
        The name of the chip, such as ``Ascend910B3``, to allow only its metrics.
    training
        Whether the session trains, rather than runs online inference.

    Raises
    ------
    OptionsError
        If TensorFlow does not support an option.
    NpuprofError
        If the directory cannot be created.
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
    """Build the ``ProfilingConfig`` for an Estimator's ``NPURunConfig``.

    Raises
    ------
    FrontEndAbsentError
        If the TensorFlow adapter cannot be imported.
    OptionsError, NpuprofError
        See :func:`profiling_options`.
    """
    text = profiling_options(options, chip=chip)
    module = _import(_CONFIG_MODULE)
    _warn_of_existing_session()
    return module.ProfilingConfig(enable_profiling=True, profiling_options=text)


def run_config(options: Options | None = None, *, chip: str = "", **arguments: Any) -> Any:
    """Build an ``NPURunConfig`` that profiles its Estimator.

    Parameters
    ----------
    options, chip
        See :func:`profiling_options`.
    **arguments
        Arguments of ``NPURunConfig``, such as ``session_config``.

    Raises
    ------
    OptionsError
        If `arguments` have a ``profiling_config``; see also :func:`profiling_options`.
    FrontEndAbsentError, NpuprofError
        See :func:`profiling_config`.
    """
    if "profiling_config" in arguments:
        raise OptionsError("run_config makes the profiling_config: leave it out, or create NPURunConfig yourself")
    return _import(_CONFIG_MODULE).NPURunConfig(profiling_config=profiling_config(options, chip=chip), **arguments)


def session_config(options: Options | None = None, config: Any = None, *, chip: str = "", training: bool = True) -> Any:
    """Build a ``ConfigProto`` for ``tf.Session(config=...)``, or add profiling to an existing one.

    Parameters
    ----------
    options, chip, training
        See :func:`profiling_options`.
    config
        The configuration to change; by default a new one. An existing ``NpuOptimizer`` in it is used.

    Raises
    ------
    FrontEndAbsentError
        If TensorFlow cannot be imported.
    OptionsError, NpuprofError
        See :func:`profiling_options`.
    """
    text = profiling_options(options, chip=chip, training=training)
    config = config if config is not None else _import("tensorflow").compat.v1.ConfigProto()
    rewriting = config.graph_options.rewrite_options
    optimizer = next((entry for entry in rewriting.custom_optimizers if entry.name == _OPTIMIZER), None)
    if optimizer is None:
        optimizer = rewriting.custom_optimizers.add()
        optimizer.name = _OPTIMIZER
        optimizer.parameter_map["use_off_line"].b = True
    optimizer.parameter_map["profiling_mode"].b = True
    optimizer.parameter_map["profiling_options"].s = text.encode()
    rewriting.remapping = _import("tensorflow.core.protobuf.rewriter_config_pb2").RewriterConfig.OFF
    _warn_of_existing_session()
    return config


def global_options(options: Options | None = None, *, chip: str = "", training: bool = True) -> Any:
    """Set and return ``npu_device.global_options()`` of TensorFlow 2; call it before ``npu_device.open()``.

    Raises
    ------
    FrontEndAbsentError
        If the TensorFlow 2 adapter cannot be imported.
    OptionsError, NpuprofError
        See :func:`profiling_options`.
    """
    text = profiling_options(options, chip=chip, training=training)
    settings = _import("npu_device").global_options()
    settings.profiling_config.enable_profiling = True
    settings.profiling_config.profiling_options = text
    return settings


def environment(
    options: Options | None = None, *, chip: str = "", training: bool = True, graph_engine: bool = False
) -> dict[str, str]:
    """Return environment variables that profile a process without changes to its code.

    Parameters
    ----------
    options, chip, training
        See :func:`profiling_options`.
    graph_engine
        Whether to return the variables read by GE, rather than those of the TensorFlow adapter.

    Raises
    ------
    OptionsError, NpuprofError
        See :func:`profiling_options`.

    Notes
    -----
    ``profiling_mode`` or ``enable_profiling`` in the script overrides the variables.
    """
    prefix = "GE_" if graph_engine else ""
    text = profiling_options(options, chip=chip, training=training)
    return {f"{prefix}PROFILING_MODE": "true", f"{prefix}PROFILING_OPTIONS": text}


def _warn_of_existing_session() -> None:
    v1 = getattr(getattr(sys.modules.get("tensorflow"), "compat", None), "v1", None)
    session = getattr(v1, "get_default_session", lambda: None)()
    if session is not None:
        warnings.warn(
            "a TensorFlow session exists already and is not profiled: collection begins with the next session "
            "made with this configuration",
            NpuprofWarning,
            stacklevel=3,
        )
    if os.environ.get("PROFILING_MODE"):
        warnings.warn(
            "PROFILING_MODE is set too: this configuration takes precedence over it",
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
