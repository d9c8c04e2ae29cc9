"""Outermost framework operators that the user's code or a module called."""

from __future__ import annotations

import re

import numpy as np

from npuprof import tables as schema
from npuprof.advice.facts import Facts
from npuprof.analysis.correlation import nearest
from npuprof.arrays import Bools, Int64

_LIBRARY = re.compile(r"(?!autograd::|torch::)\w+::")


def outer_calls(facts: Facts) -> Int64:
    """Return the rows of ``operators`` of a library, such as ``aten::mul``, that no other operator of one called."""
    operators, callers = facts.tables["operators"], facts.causes.callers
    library = np.zeros(len(callers), bool)
    of_operators = host_rows(facts)
    library[of_operators] = schema.matching(operators["name"], lambda name: bool(_LIBRARY.match(name)))
    above = np.where(callers >= 0, nearest(callers, callers, library), -1)
    return np.flatnonzero(library[of_operators] & (above[of_operators] < 0))


def host_rows(facts: Facts) -> slice:
    """Return the numbers of the rows of ``operators`` among all host rows; see :class:`Causes`."""
    first = facts.causes.first_row["operators"]
    return slice(first, first + len(facts.tables["operators"]))


def kernels_within(facts: Facts, operators: Bools) -> Bools:
    """Return which kernels were launched within operators, given as a mask."""
    is_wanted = np.zeros(len(facts.causes.callers), bool)
    is_wanted[host_rows(facts)] = operators
    return nearest(facts.causes.callers, facts.causes.launchers, is_wanted) >= 0
