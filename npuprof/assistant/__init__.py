"""A server of the Model Context Protocol: an assistant reads runs below one folder, and changes nothing."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from npuprof.errors import NpuprofError


def serve(root: Path, *, with_source: bool = True, sql_s: float = 20.0) -> None:
    """Serve the runs below a folder over stdio until the client closes the connection."""
    missing = [name for name in ("mcp", "duckdb") if importlib.util.find_spec(name) is None]
    if missing:
        raise NpuprofError(f"the server needs {' and '.join(missing)}: pip install 'npuprof[assistant]'")
    from npuprof.assistant.server import make_server

    make_server(root, with_source=with_source, sql_s=sql_s).run("stdio")
