"""Read pickles that hold only plain values: numbers, texts, lists, dictionaries and tuples of numbers.

Unpickling runs any code that a pickle names, so a pickle is read in two steps. First its opcodes are scanned without
execution: a pickle that names a class or a function, calls or builds an object, or makes a set or a tuple of anything
but up to three small numbers is refused. Then an unpickler that cannot look up names builds the values. Keys are
restricted: hashing a deep tuple needs a deep stack, and long numbers or tuples of them can be crafted to collide, so
that building a dictionary takes hours and ignores interrupts.
"""

from __future__ import annotations

import io
import pickle
from typing import Any, NoReturn

from npuprof.errors import SourceError

MAX_BYTES = 1 << 30
_MAX_NUMBER_BYTES = 9  # an address with its sign
_MAX_IN_TUPLE = 3

# Number of argument bytes of each instruction; -1: the length precedes the argument.
_FOLLOWING = {
    **dict.fromkeys(b"}])(aesuN\x88\x89\x85\x86\x87\x94t", 0),
    **dict.fromkeys(b"Kqh\x80", 1),
    ord("M"): 2,
    **dict.fromkeys(b"Jrj", 4),
    **dict.fromkeys(b"G\x95", 8),
    **dict.fromkeys(b"XC\x8cB\x8d\x8a\x8b", -1),
}
_LENGTH_BYTES = {ord("X"): 4, ord("C"): 1, 0x8C: 1, ord("B"): 4, 0x8D: 8, 0x8A: 1, 0x8B: 4}
_SMALL, _LONG = frozenset(b"KMJ"), frozenset(b"\x8a\x8b")
_TUPLES = {0x85: 1, 0x86: 2, 0x87: 3}
_MARK, _TUPLE, _STOP, _PROTOCOL, _PUT = ord("("), ord("t"), ord("."), 0x80, ord("r")


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> NoReturn:
        raise pickle.UnpicklingError(f"it asks for {module_name}.{global_name}, which is not made")

    def persistent_load(self, pid: Any, /) -> NoReturn:
        raise pickle.UnpicklingError(f"it refers to the object {str(pid)[:40]!r}, which is not in it")


def looks_like_pickle(head: bytes) -> bool:
    """Check by its first bytes whether a file is a pickle of protocol 2 or later."""
    return len(head) > 2 and head[0] == _PROTOCOL and 2 <= head[1] <= 5


def load_plain(data: bytes, path: object) -> Any:
    """Return the value that a pickle holds."""
    _check(data, path)
    try:
        return _PlainUnpickler(io.BytesIO(data)).load()
    except MemoryError:
        raise SourceError(f"{path} takes more memory than there is; record fewer entries of the history") from None
    except Exception as error:
        raise SourceError(f"{path} cannot be read as a pickle: {error}; save the snapshot again") from error


def _check(data: bytes, path: object) -> None:
    """Check the instructions, and refuse those that plain values do not need."""
    at, end, numbers, marked = 0, len(data), 0, False
    while at < end:
        code = data[at]
        if code == _STOP:
            return
        follow = _FOLLOWING.get(code)
        if follow is None:
            _refuse(path, f"instruction {bytes([code])!r} at byte {at} makes more than plain values")
        if code in _SMALL:
            numbers += 1
        else:
            if _TUPLES.get(code, 0) > numbers or (code == _TUPLE and not (marked and numbers <= _MAX_IN_TUPLE)):
                _refuse(path, f"the tuple at byte {at} holds more than a few small numbers")
            numbers, marked = 0, code == _MARK
        at += 1
        if follow < 0:
            width = _LENGTH_BYTES[code]
            follow = width + int.from_bytes(data[at : at + width], "little")
            if code in _LONG and _is_long(data[at + width : at + follow]):
                _refuse(path, f"the number at byte {at} is longer than an address")
        elif code == _PUT and int.from_bytes(data[at : at + 4], "little") > at:
            _refuse(path, f"byte {at} numbers more values than there are")
        at += follow
    raise SourceError(f"{path} ends in the middle of a pickle: it was cut off; save the snapshot again")


def _is_long(number: bytes) -> bool:
    return len(number) > _MAX_NUMBER_BYTES or (len(number) == _MAX_NUMBER_BYTES and number[-1] not in (0, 255))


def _refuse(path: object, reason: str) -> NoReturn:
    raise SourceError(
        f"{path} is a pickle that npuprof does not open: {reason}, and a pickle that makes objects can run any program"
        ". Memory snapshots of torch.cuda.memory._snapshot and torch_npu hold plain values only"
    )
