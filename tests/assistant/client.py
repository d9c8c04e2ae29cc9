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

    async def talk() -> list[Said]:
        from mcp import Client, StdioServerParameters, stdio_client

        command = StdioServerParameters(command=sys.executable, args=["-m", "npuprof", "mcp", str(folder), *options])
        async with Client(stdio_client(command)) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            said = [Said(" ".join(tools), False)]
            for name, arguments in calls:
                result = await client.call_tool(name, arguments)
                text = "".join(part.text for part in result.content if part.type == "text")
                said.append(Said(text, bool(result.is_error)))
            return said

    return asyncio.run(asyncio.wait_for(talk(), pace.seconds(120)))
