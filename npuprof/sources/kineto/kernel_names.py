"""Names of kernels of GPUs: symbols of C++."""

from __future__ import annotations

import re
from functools import lru_cache

_TEMPLATE = re.compile(r"<[^<>]*>")
_ANONYMOUS = re.compile(r"\(anonymous namespace\)(?:::)?")


@lru_cache(maxsize=1 << 16)
def short_name(symbol: str) -> str:
    """Return the function name of a kernel, without return type, namespaces, template arguments and parameters."""
    name, before = _ANONYMOUS.sub("", symbol), ""
    while name != before:
        name, before = _TEMPLATE.sub("", name), name
    return name.partition("(")[0].strip().rpartition(" ")[2].rpartition("::")[2] or symbol
