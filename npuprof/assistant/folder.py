"""The folder that is served: paths below it, and the runs that were opened last."""

from __future__ import annotations

import os
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING

from npuprof.errors import NpuprofError
from npuprof.words.names import users_in

if TYPE_CHECKING:
    from npuprof.profiles.profile import Profile
    from npuprof.ranks.profile_set import ProfileSet

_MOST_OPEN = 4
_MOST_FILES = 200_000
_NEXT = "list_runs names what can be read"


class Folder:
    """A folder, outside of which nothing is opened."""

    def __init__(self, root: Path, *, with_source: bool = True) -> None:
        self.root = root.resolve()
        self.with_source = with_source
        # hosts, users: those that opened runs name.
        self.hosts: set[str] = set()
        self.users: set[str] = set()
        self._opened: OrderedDict[tuple[str, int, int, int], Profile | ProfileSet] = OrderedDict()
        if not self.root.is_dir():
            raise NpuprofError(f"{root} is no folder: name the one that holds the runs")

    def path(self, name: str) -> Path:
        """Return the path of a name below the folder; raise an NpuprofError for any other, after resolving links."""
        if "\0" in name:
            raise NpuprofError(f"a path has no NUL character: {_NEXT}")
        outside = f"{name!r} is outside of the folder that is served: {_NEXT}"
        if not self.holds(Path(os.path.normpath(self.root / name))):
            raise NpuprofError(outside)
        try:
            path = (self.root / name).resolve(strict=True)
        except FileNotFoundError:
            raise NpuprofError(f"there is no {name!r} in the folder that is served: {_NEXT}") from None
        except (OSError, RuntimeError):  # such as a link to itself
            raise NpuprofError(f"{name!r} cannot be read: {_NEXT}") from None
        if not self.holds(path):
            raise NpuprofError(outside)
        return path

    def holds(self, path: Path) -> bool:
        """Return whether a path without links is in the folder."""
        return path.is_relative_to(self.root)

    def shown(self, path: Path) -> str:
        """Return a path as the tools take it: relative to the folder."""
        return str(path.relative_to(self.root)) if self.holds(path) else path.name

    def open(self, name: str) -> Profile | ProfileSet:
        """Return the run or the set at a path, opened once as long as its files stay as they are."""
        from npuprof.loading import open_path

        path = self.path(name)
        key = (str(path), *self._state(path))
        if key in self._opened:
            self._opened.move_to_end(key)
            return self._opened[key]
        opened = open_path(path)
        self._without_source(opened)
        self._note_people(opened)
        self._opened[key] = opened
        while len(self._opened) > _MOST_OPEN:
            self._opened.popitem(last=False)
        return opened

    def _without_source(self, opened: Profile | ProfileSet) -> None:
        """Forget the text of the code, before anything is said of it."""
        from npuprof.profiles.profile import Profile

        if self.with_source:
            return
        for run in [opened] if isinstance(opened, Profile) else opened:
            run.info.code.clear()

    def _note_people(self, opened: Profile | ProfileSet) -> None:
        """Note the hosts and users that a run names."""
        from npuprof.profiles.profile import Profile

        if not isinstance(opened, Profile):
            self.hosts |= set(map(str, opened.info["host"].dropna()))
            return
        facts = opened.info.environment
        self.hosts |= {facts[key] for key in ("hostname", "host") if facts.get(key)}
        self.users |= users_in("\n".join([*opened.info.code, *map(str, facts.values())]))

    def _state(self, path: Path) -> tuple[int, int, int]:
        """Return number, newest change and size of the files at a path; raise an NpuprofError if one leads outside."""
        files = size = newest = 0
        pending, seen = [path], {path}
        while pending:
            here = pending.pop()
            try:
                target = here.resolve(strict=True) if here.is_symlink() else here
                if not self.holds(target):
                    raise NpuprofError(
                        f"{self.shown(here)!r} is a link to outside of the folder that is served: {_NEXT}"
                    )
                known = target.stat()
                if target.is_dir() and (target == here or target not in seen):  # readers follow links to folders too
                    seen.add(target)
                    pending += [Path(entry.path) for entry in os.scandir(target)]
            except (OSError, RuntimeError):  # the reader of the run says what it cannot read
                continue
            files, size, newest = files + 1, size + known.st_size, max(newest, known.st_mtime_ns)
            if files > _MOST_FILES:
                raise NpuprofError(f"there are more than {_MOST_FILES:,} files: name a folder further in; {_NEXT}")
        return files, newest, size
