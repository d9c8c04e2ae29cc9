"""The folder that is served: paths below it, and the runs that were opened last."""

from __future__ import annotations

import os
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING

from npuprof.errors import NpuprofError

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
        self.hosts: set[str] = set()  # that the opened runs name
        self._opened: OrderedDict[tuple[str, int, int, int], Profile | ProfileSet] = OrderedDict()
        if not self.root.is_dir():
            raise NpuprofError(f"{root} is no folder: name the one that holds the runs")

    def path(self, name: str) -> Path:
        """Return the path of a name below the folder; raise an NpuprofError for any other, after resolving links."""
        if "\0" in name:
            raise NpuprofError(f"a path has no NUL character: {_NEXT}")
        path = (self.root / name).resolve()
        if not path.is_relative_to(self.root):
            raise NpuprofError(f"{name!r} is outside of the folder that is served: {_NEXT}")
        if not path.exists():
            raise NpuprofError(f"there is no {name!r} in the folder that is served: {_NEXT}")
        return path

    def open(self, name: str) -> Profile | ProfileSet:
        """Return the run or the set at a path, opened once as long as its files stay as they are."""
        from npuprof.loading import open_path

        path = self.path(name)
        key = (str(path), *self._state(path))
        if key in self._opened:
            self._opened.move_to_end(key)
            return self._opened[key]
        opened = open_path(path)
        self._opened[key] = opened
        while len(self._opened) > _MOST_OPEN:
            self._opened.popitem(last=False)
        self._without_source(opened)
        self._note_hosts(opened)
        return opened

    def _without_source(self, opened: Profile | ProfileSet) -> None:
        """Forget the text of the code, before anything is said of it."""
        from npuprof.profiles.profile import Profile

        if self.with_source:
            return
        for run in [opened] if isinstance(opened, Profile) else opened:
            run.info.code.clear()

    def _note_hosts(self, opened: Profile | ProfileSet) -> None:
        from npuprof.profiles.profile import Profile

        if isinstance(opened, Profile):
            self.hosts |= {
                opened.info.environment[key] for key in ("hostname", "host") if opened.info.environment.get(key)
            }
        else:
            self.hosts |= set(map(str, opened.info["host"].dropna()))

    def _state(self, path: Path) -> tuple[int, int, int]:
        """Return number, newest change and size of the files at a path; raise an NpuprofError if one leads outside."""
        files = size = newest = 0
        pending = [path]
        while pending:
            here = pending.pop()
            if here.is_symlink() and not here.resolve().is_relative_to(self.root):
                link = here.relative_to(self.root)
                raise NpuprofError(f"{str(link)!r} is a link to outside of the folder that is served: {_NEXT}")
            try:
                known = here.stat()
                if here.is_dir() and not (here.is_symlink() and here != path):
                    pending += [Path(entry.path) for entry in os.scandir(here)]
            except OSError:  # the reader of the run says what it cannot read
                continue
            files, size, newest = files + 1, size + known.st_size, max(newest, known.st_mtime_ns)
            if files > _MOST_FILES:
                raise NpuprofError(f"there are more than {_MOST_FILES:,} files: name a folder further in; {_NEXT}")
        return files, newest, size
