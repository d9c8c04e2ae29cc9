"""The unprofiled second run of a cell, with which ``%%npuprof --overhead`` compares."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from IPython.utils.capture import capture_output

from npuprof.errors import describe_failure
from npuprof.notebook.hooks import without_first_line
from npuprof.notebook.messages import tell

if TYPE_CHECKING:
    from types import CodeType

    from IPython.core.interactiveshell import InteractiveShell

_UNKNOWN = "the cost of profiling is unknown"


def run_again(shell: InteractiveShell, text: str) -> int | None:
    """Run a profiled cell a second time, without profiling, output and history.

    Returns
    -------
    int or None
        The duration in nanoseconds; None if it cannot run a second time, for a reason printed to standard error.
    """
    try:
        code = _compile(shell, without_first_line(text))
    except SyntaxError as error:  # although the cell ran: it has an `await`, which needs the event loop
        tell(f"the cell cannot run a second time ({error.msg}): {_UNKNOWN}")
        return None
    with capture_output():
        began_ns = time.perf_counter_ns()
        try:
            exec(code, shell.user_global_ns, shell.user_ns)  # noqa: S102 - the user's cell, in the user's namespace
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - of the user's code, SystemExit included: reported, not raised
            failure = describe_failure(error)
        else:
            return time.perf_counter_ns() - began_ns
    tell(f"the cell ran twice, and the second, unprofiled run raised {failure}: {_UNKNOWN}")
    return None


def _compile(shell: InteractiveShell, text: str) -> CodeType:
    tree = shell.transform_ast(shell.compile.ast_parse(shell.transform_cell(text)))
    return shell.compile(tree, "<unprofiled repeat>", "exec")
