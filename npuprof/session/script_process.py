"""The process of a script that is profiled from within: it runs the module with stamps, as ``python script.py`` would.

Run by :mod:`npuprof.session.scripts`, which gets the directory of the recording, or the reason of a refusal.
"""

from __future__ import annotations

import ast
import linecache
import os
import sys
from pathlib import Path
from types import CodeType, ModuleType

from npuprof.errors import NpuprofError, describe_failure
from npuprof.lines.cell_stamps import RunningCell
from npuprof.lines.rewriting import Rewriting
from npuprof.lines.stamps import Stamps
from npuprof.options import Options
from npuprof.session.scripts import REFUSED
from npuprof.session.session import Session


def main(words: list[str]) -> int:
    """Run a script, and return its exit status.

    Parameters
    ----------
    words
        The file descriptor for the parent, the options as JSON, the script, and its arguments.
    """
    parent, options, script = int(words[0]), Options.from_json(words[1]), words[2]
    os.set_inheritable(parent, False)
    sys.argv[:] = words[2:]
    sys.path[0] = str(Path(script).parent)
    try:
        text = Path(script).read_bytes()
        code, stamps = _compiled(text, script, is_stamped=options.steps or options.lines)
    except (OSError, SyntaxError, ValueError) as error:
        os.write(parent, REFUSED + f"{script} cannot be run: {describe_failure(error)}".encode(errors="replace"))
        return 1
    session = Session(options, title=f"the run of {Path(script).name}")
    session.code = text.decode(errors="replace")
    session.cell = RunningCell(script, stamps, text="".join(linecache.getlines(script)))
    try:
        session.start()
    except NpuprofError as error:
        os.write(parent, REFUSED + str(error).encode(errors="replace"))
        return 1
    os.write(parent, os.fsencode(session.recording.directory.absolute()))
    os.close(parent)
    return _run(code, script, session)


def _run(code: CodeType, script: str, session: Session) -> int:
    """Run the code as the module ``__main__``, stop the session however it ends, and return the exit status."""
    module = ModuleType("__main__")
    module.__dict__.update(__file__=script, __builtins__=__builtins__)
    sys.modules["__main__"] = module
    failed, status = "", 0
    try:
        exec(code, module.__dict__)  # noqa: S102 - the script of the user
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        failed = f"SystemExit: {end.code}" if status else ""
        if end.code is not None and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)  # noqa: T201 - as Python does
    except BaseException as error:  # noqa: BLE001 - told as Python does
        failed, status = describe_failure(error), 1
        error = error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)  # without this function
        sys.excepthook(type(error), error, error.__traceback__)
    session.stop(failed)
    return status


def _compiled(text: bytes, script: str, *, is_stamped: bool) -> tuple[CodeType, Stamps | None]:
    """Return the code of a module, with the stamps of its statements."""

    def compiled(tree: ast.AST) -> CodeType:
        return compile(tree, script, "exec", dont_inherit=True)  # type: ignore[call-overload]

    tree = ast.parse(text, script)
    if not is_stamped:
        return compiled(tree), None
    rewriting = Rewriting(tree.body)
    return rewriting.compile(compiled, tree), rewriting.stamps


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
