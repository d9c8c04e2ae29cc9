"""Chip families, which determine the layouts of device records.

Source: raw/FORMAT.md section 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

from npuprof.tables.notes import Notes


class Family(Enum):
    """Chips with equal layouts of device records."""

    STARS = "stars"
    HWTS = "hwts"
    STARS_V6 = "stars v6"
    NANO = "nano"
    TIMELINE = "time line"


FAMILIES: Mapping[str, Family] = {
    "0": Family.TIMELINE,
    **dict.fromkeys(("1", "2", "3", "4"), Family.HWTS),
    **dict.fromkeys(("5", "7", "8", "11", "12"), Family.STARS),
    "9": Family.NANO,
    **dict.fromkeys(("15", "16", "17", "18", "19", "21"), Family.STARS_V6),
}
"""The family by ``platform_version``."""

_FIRST_V6 = 15
_OLD_DESCRIPTIONS = "Framework."
_TELLING_STREAMS = {"hwts.": Family.HWTS, "nano_stars_profile.": Family.NANO}


def family_of(platform_version: object, streams: Iterable[str]) -> Family:
    """Return the family of a chip; for an unknown chip, the family of the nearest known version."""
    version = "" if platform_version is None else str(platform_version)
    if version in FAMILIES:
        return FAMILIES[version]
    for stream in streams:
        for start, family in _TELLING_STREAMS.items():
            if stream.startswith(start):
                return family
    is_later = version.isascii() and version.isdigit() and len(version) < 4 and int(version) >= _FIRST_V6
    return Family.STARS_V6 if is_later else Family.STARS


def note_old_names(streams: Iterable[str], notes: Notes) -> None:
    """Note operator descriptions in files of an older form that is not decoded."""
    if any(stream.startswith(_OLD_DESCRIPTIONS) for stream in streams):
        message = "operators are described in Framework.* files of an older CANN release, which are not decoded"
        notes.warning("host", f"{message}: kernels have no names")


def note_family(family: Family, platform_version: object, label: str, notes: Notes) -> None:
    """Note the assumptions about an unknown chip, or the streams of a known chip that are not decoded."""
    if platform_version is not None and str(platform_version) not in FAMILIES:
        text = str(platform_version)[:20]
        notes.warning(label, f"platform version {text} is not known: its records are read as those of {family.value}")
    if family is Family.TIMELINE:
        notes.error(label, "the task records of this chip (Ascend 310) are not decoded: no tasks, no kernels")
