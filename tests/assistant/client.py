"""The official client of the Model Context Protocol, and the server in a process of its own."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests import pace


class Said(NamedTuple):
    """An answer: its text, and whether it is an error."""

    text: str
    is_error: bool


def ask(folder: Path, *calls: tuple[str, dict[str, Any]], options: Sequence[str] = ()) -> list[Said]:
    """Return the answers of a server of a folder to calls, one after another; the tools come first."""
    pytest.importorskip("mcp", reason="mcp is not installed")

    from mcp import StdioServerParameters, stdio_client

    command = StdioServerParameters(command=sys.executable, args=["-m", "npuprof", "mcp", str(folder), *options])
    return asyncio.run(asyncio.wait_for(_talk(stdio_client(command), calls), pace.seconds(120)))


def ask_here(folder: Path, *calls: tuple[str, dict[str, Any]], with_source: bool = True) -> list[Said]:
    """Return the answers of a server in this process, as :func:`ask` does."""
    pytest.importorskip("mcp", reason="mcp is not installed")
    from npuprof.assistant.server import make_server

    return asyncio.run(_talk(make_server(folder, with_source=with_source), calls))


async def _talk(server: Any, calls: Sequence[tuple[str, dict[str, Any]]]) -> list[Said]:
    from mcp import Client

    async with Client(server) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        said = [Said(" ".join(tools), False)]
        for name, arguments in calls:
            result = await client.call_tool(name, arguments)
            text = "".join(part.text for part in result.content if part.type == "text")
            said.append(Said(text, bool(result.is_error)))
        return said
