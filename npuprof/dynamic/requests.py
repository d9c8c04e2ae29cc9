"""Requests: the validated contents of ``profiler_config.json``.

The file is read like the framework whose keys it has reads it. Unknown or unsupported options are reported and ignored,
as in the frameworks; invalid keys for when and where to record, and invalid options under npuprof names
(:func:`npuprof.dynamic.edit`, and the key ``npuprof``), reject the whole file.
"""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from npuprof.dynamic import keys
from npuprof.errors import OptionsError, SourceError
from npuprof.files.small_files import decode
from npuprof.options import Options, has_value, lacks, lenient
from npuprof.options.specification import FRONT_ENDS
from npuprof.options.values import listed

FILE_NAME = "profiler_config.json"
_MAX_BYTES = 1 << 20
NOW = -1
HERE = Path()
"""The directory for recordings in the templates: the working directory."""

# A wrong value of these rejects the file: without it, other steps or ranks would be recorded, or elsewhere.
_WHEN = frozenset({"start_step", "stop_step", "warmup", "active", "is_valid"})
_WHERE = frozenset({"is_rank", "rank_list", "prof_dir", "prof_path", "npuprof"})

Dialect = Literal["torch_npu", "mindspore"]
Warn = Callable[[str], object]


@dataclass(frozen=True)
class Request:
    """The options of a run, and its steps."""

    options: Options  # the options; the output is the directory named in the file
    first: int | None  # the number of `step()` calls before it begins; `NOW` for the next call, None for never
    active: int = 1
    # warmup, active: the numbers of warm-up and recorded steps.
    warmup: int = 0
    # The number of a loop's first step in the framework of the file: 0 for torch_npu, 1 for MindSpore.
    counted_from: int = 0
    ranks: frozenset[int] | None = None  # the ranks to profile; None for all
    # Whether the run is decoded at its end or in another process: `"sync"`, `"async"`, or `""` for not at all.
    analyse: str = ""
    metadata: Mapping[str, Any] | None = None  # metadata of the run
    typed: frozenset[str] = frozenset()  # the options given by their npuprof names

    def means(self, rank: int) -> bool:
        """Return whether the request is for a rank."""
        return self.ranks is None or rank in self.ranks


def read_file(path: Path) -> tuple[dict[str, Any], os.stat_result]:
    """Read the JSON object in the file, and the file's state after the last byte."""
    try:
        # Non-blocking: the name may be that of a pipe, on which the loop must not hang.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:  # noqa: PTH123
            is_file = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            content = file.read(_MAX_BYTES + 1) if is_file else b""
            state = os.fstat(file.fileno())
    except OSError as error:
        raise SourceError(f"{path} cannot be read ({error.strerror or error})") from error
    if not is_file:
        raise SourceError(f"{path} is no file: put a {FILE_NAME} in its place")
    if reason := distrust(state):
        raise SourceError(f"{path} {reason}")
    if len(content) > _MAX_BYTES:
        raise SourceError(f"{path} has over {_MAX_BYTES} bytes: it cannot be a {FILE_NAME}")
    try:
        plain = decode(content)
    except ValueError as error:
        raise SourceError(
            f"{path} is not JSON, or is half written ({error}): mend it, it is read again then"
        ) from error
    if not isinstance(plain, dict):
        raise SourceError(f"{path} must hold a JSON object, not {type(plain).__name__}")
    return plain, state


def distrust(state: os.stat_result) -> str:
    """Return why a file with this owner and mode is not trusted, and what to do; empty if it is trusted.

    The file names the directory for recordings, so its writer acts with the permissions of the training process.
    """
    if state.st_uid not in (0, os.geteuid()):
        return (
            f"belongs to user {state.st_uid}, and only a file of user {os.geteuid()} (who runs this) or of root "
            "is obeyed: chown it, or write it anew as that user"
        )
    if state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return (
            f"can be written to by others (mode {stat.S_IMODE(state.st_mode):04o}), so it is not obeyed: chmod go-w it"
        )
    return ""


def dialect_of(plain: Mapping[str, Any]) -> Dialect:
    """Return the framework of the keys; torch_npu if all keys are common to both."""
    _take_known(plain, {*keys.TORCH_NPU, *keys.MINDSPORE}, "", None)
    torch_npu = [key for key in plain if key not in keys.MINDSPORE]
    mindspore = [key for key in plain if key not in keys.TORCH_NPU]
    if torch_npu and mindspore:
        special = [key for key in mindspore if key in keys.TORCH_NPU_SPECIAL]
        hint = f"; in torch_npu's, {listed(special)} belongs into experimental_config" if special else ""
        raise OptionsError(
            f"{listed(mindspore)} is of MindSpore's file and {listed(torch_npu)} of torch_npu's: use one of them{hint}"
        )
    return "mindspore" if mindspore else "torch_npu"


def understand(
    plain: Mapping[str, Any],
    *,
    changed: bool = True,
    collector: str = "auto",
    output: Path = HERE,
    warn: Warn | None = None,
) -> Request:
    """Build the request from the file's object.

    Parameters
    ----------
    changed
        Whether the file was changed; then a file without ``start_step`` begins now, as in torch_npu's first versions.
    warn
        Called with each option that is left out because it is unknown, wrong, or conflicts with another; if None,
        the file is refused.
    """
    plain = _take_known(plain, {*keys.TORCH_NPU, *keys.MINDSPORE}, "", warn)
    dialect = dialect_of(plain)
    taken = _convert(plain, keys.DIALECTS[dialect], "", warn)
    special_plain = taken.get("experimental_config", {})
    special = _convert(special_plain, keys.TORCH_NPU_SPECIAL, "experimental_config.", warn)
    if dialect == "mindspore":
        special = {}
        if "aicore_metrics" in plain and "aic_metrics" in plain:
            both = "aicore_metrics and aic_metrics say the same: leave the older aicore_metrics out"
            if warn is None:
                raise OptionsError(both)
            warn(f"aicore_metrics left out: {both}")
            plain = {name: value for name, value in plain.items() if name != "aicore_metrics"}
            taken.pop("aicore_metrics", None)
        when = _mindspore_steps(taken)
    else:
        when = _torch_npu_steps(taken, plain, changed=changed)
    return Request(
        options=_options(dialect, plain, taken, special, (collector, output), warn),
        typed=frozenset(taken["npuprof"]),
        ranks=frozenset(taken["rank_list"]) if taken["is_rank"] else None,
        analyse=_analysis(taken),
        metadata=taken["metadata"],
        **when,
    )


def _torch_npu_steps(taken: Mapping[str, Any], plain: Mapping[str, Any], *, changed: bool) -> dict[str, Any]:
    first: int | None = taken["start_step"] or None
    if "start_step" not in plain and changed:
        first = NOW
    if taken.get("is_valid") is False:
        first = None
    return {"first": first, "active": taken["active"], "warmup": taken["warmup"]}


def _mindspore_steps(taken: Mapping[str, Any]) -> dict[str, Any]:
    start, stop = taken["start_step"], taken["stop_step"]
    if start == -1 or stop == -1:
        if start != stop:
            raise OptionsError(f"start_step {start} and stop_step {stop}: give both, or -1 for both to profile nothing")
        return {"first": None, "counted_from": 1}
    if not 1 <= start <= stop:
        raise OptionsError(
            f"start_step {start} and stop_step {stop}: steps are counted from 1, and stop_step is not before start_step"
        )
    return {"first": start - 1, "active": stop - start + 1, "counted_from": 1}


def _analysis(taken: Mapping[str, Any]) -> str:
    if "analyse_mode" in taken:
        return str(taken["analyse_mode"]) or ("sync" if taken["analyse"] else "")
    if not taken["analyse"]:
        return ""
    return "async" if taken["async_mode"] else "sync"


def _options(
    dialect: str,
    plain: Mapping[str, Any],
    taken: Mapping[str, Any],
    special: Mapping[str, Any],
    fallbacks: tuple[str, Path],
    warn: Warn | None,
) -> Options:
    collector = taken["npuprof"].get("collector", fallbacks[0])
    chosen: dict[str, Any] = {"collector": collector}
    given_special = plain.get("experimental_config")
    special_plain = given_special if isinstance(given_special, dict) else {}
    for table, given, names in (
        (keys.DIALECTS[dialect], plain, taken),
        (keys.TORCH_NPU_SPECIAL, special_plain, special),
    ):
        for name, value in names.items():
            key = table[name]
            is_default = given.get(name, key.default) == key.default
            if key.option and not (is_default and _lacks(collector, key.option, value)):
                chosen[key.option] = value
    if "aicore_metrics" in plain and "aicore_metrics" in taken:
        chosen["aic_metrics"] = taken["aicore_metrics"]
        is_number = isinstance(plain["aicore_metrics"], int) and taken["aicore_metrics"] is not None
        if is_number and plain.get("profiler_level", -1) == -1:
            # MindSpore before 2.5, where metrics needed no level; the variable of the process is read so, too
            chosen["level"] = 1
    chosen["marks"] = any(names.get(key, False) for names in (taken, special) for key in ("mstx", "msprof_tx"))
    if taken.get("profile_communication") and chosen.get("level") not in (1, 2):
        # MindSpore: the option records communication, which some front ends record only together with level 1
        chosen["level"] = 1
    path = Path(taken["prof_path" if dialect == "mindspore" else "prof_dir"])
    chosen["output"] = fallbacks[1] if path == HERE else path
    options = _take_known(taken["npuprof"], {field.name for field in fields(Options)}, "npuprof.", None)
    if warn is None:
        return Options.from_dict({**chosen, **options})
    return lenient.build({**chosen, **options}, warn, typed=options)


def _lacks(collector: Any, option: str, value: Any) -> bool:
    """Return whether a front end lacks an option, so that a default in the file has no effect."""
    if not isinstance(collector, str) or collector not in FRONT_ENDS:
        return False  # chosen later, or refused
    if option == "activities":
        return not all(has_value(collector, option, activity) for activity in value)
    return bool(lacks(collector, option))


def _convert(plain: Mapping[str, Any], table: Mapping[str, keys.Key], where: str, warn: Warn | None) -> dict[str, Any]:
    """Return the converted values of all keys, with defaults for absent ones."""
    plain = _take_known(plain, set(table), where, warn)
    taken = {}
    for name, key in table.items():
        value = plain.get(name, key.default)
        if name not in plain and value is None:
            continue
        try:
            taken[name] = key.take(where + name, value)
        except OptionsError as error:
            if warn is None or name in _WHEN | _WHERE:
                raise
            warn(f"{where}{name} left out: {error}")
            if key.default is not None:
                taken[name] = key.take(where + name, key.default)
    return taken


def _take_known(plain: Mapping[str, Any], known_names: set[str], where: str, warn: Warn | None) -> dict[str, Any]:
    """Return the known keys; report or refuse unknown ones."""
    for name in plain:
        if name not in known_names:
            close = difflib.get_close_matches(name, known_names, 1)
            meant = f"did you mean {where}{close[0]}?" if close else f"the keys are {listed(sorted(known_names))}"
            if warn is None:
                raise OptionsError(f"unknown key {where}{name}: {meant}")
            warn(f"unknown key {where}{name} left out: {meant}")
    return {name: value for name, value in plain.items() if name in known_names}
