"""Sampled stacks as a tree of frames: each distinct stack is stored once, and prefixes are shared."""

from __future__ import annotations

import enum
import types
import weakref
from array import array
from itertools import islice
from typing import TypeAlias

from npuprof.lines import call_stacks
from npuprof.lines.frames import Frame
from npuprof.words.texts import encodable

NOTHING = -1
"""The node of a thread that has ended, and the parent of a stack's first frame."""

Columns: TypeAlias = "dict[str, list[str] | list[int] | array[int]]"

_MAX_NODES = 250_000
_MAX_FRAMES = 100_000
_FRAME_BITS = 32


class LoopFrame(enum.Enum):
    """The role of a frame in an event loop."""

    NONE = "not a frame of the loop"
    LOOP = "the running loop"
    ROUND = "a round of the loop"
    CALLBACK = "a callback or task of the loop"


_STEPS = {
    ("asyncio.base_events", "run_forever"): LoopFrame.LOOP,
    ("asyncio.base_events", "_run_once"): LoopFrame.ROUND,
    ("asyncio.events", "_run"): LoopFrame.CALLBACK,
    ("nest_asyncio", "run_forever"): LoopFrame.LOOP,
    ("nest_asyncio", "run_until_complete"): LoopFrame.LOOP,
    ("nest_asyncio", "_run_once"): LoopFrame.ROUND,
}


class StackTree:
    """Numbers the distinct frames and stacks.

    A frame is a function: file, first line, name and module. Code objects are held weakly, so that a cell that runs
    repeatedly does not accumulate them.

    Attributes
    ----------
    steps, are_users
        The role in an event loop, and whether it is the user's code, of each frame.
    files
        The file names of the code of cells, by those of their frames.
    """

    def __init__(self) -> None:
        self.steps: list[LoopFrame] = []
        self.are_users: list[bool] = []
        self.files: dict[str, str] = {}
        self._codes: dict[int, tuple[weakref.ref[types.CodeType], int]] = {}
        self._frames: dict[tuple[str, int, str, str], int] = {}
        self._nodes: dict[int, int] = {}
        self._parents, self._node_frames = array("i"), array("i")

    @property
    def is_full(self) -> bool:
        """Whether the tree has reached its limit."""
        return len(self._parents) >= _MAX_NODES or len(self._frames) >= _MAX_FRAMES

    def frame(self, frame: types.FrameType) -> int:
        """Return the index of a frame's function."""
        code = frame.f_code
        known = self._codes.get(id(code))
        if known is not None and known[0]() is code:  # ids are reused
            return known[1]
        index = self._add_frame(code, frame.f_globals.get("__name__"))
        self._codes[id(code)] = (weakref.ref(code), index)
        return index

    def _add_frame(self, code: types.CodeType, module: object) -> int:
        # Exact strings only: a user may set a module's name to anything.
        name = module if type(module) is str else ""
        file = call_stacks.numbered_file(code.co_filename)
        if file is not code.co_filename:
            self.files[file] = code.co_filename
        key = (file, code.co_firstlineno, code.co_name, name)
        index = self._frames.setdefault(key, len(self._frames))
        if index == len(self.steps):
            self.steps.append(_STEPS.get((name, code.co_name), LoopFrame.NONE))
            self.are_users.append(Frame(encodable(key[0]), key[1], encodable(key[2])).is_users)
        return index

    def node(self, path: list[int]) -> int:
        """Return the node of a stack of frame indices, outermost first; :data:`NOTHING` for an empty stack."""
        node = NOTHING
        for frame in path:
            key = (node + 1) << _FRAME_BITS | frame
            child = self._nodes.get(key)
            if child is None:
                child = self._nodes[key] = len(self._parents)
                self._parents.append(node)
                self._node_frames.append(frame)
            node = child
        return node

    @property
    def sizes(self) -> tuple[int, int]:
        """The numbers of nodes and frames."""
        return len(self._node_frames), len(self._frames)

    def columns(self, nodes: int = 0, frames: int = 0) -> Columns:
        """Return the tree and its frames as columns, without the first rows of each; parents precede their children."""
        count = len(self._node_frames)  # frames are added before their nodes
        keys = list(islice(self._frames, frames, None)) if frames < len(self._frames) else []
        return {
            "node_parent": self._parents[nodes:count],
            "node_frame": self._node_frames[nodes:count],
            "frame_file": [encodable(key[0]) for key in keys],
            "frame_line": [key[1] for key in keys],
            "frame_function": [encodable(key[2]) for key in keys],
            "frame_module": [encodable(key[3]) for key in keys],
        }
