"""A saved explorer as HTML: a fragment that needs nothing else, for an output or a page, and the policy of a page."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256
from html import escape

from npuprof.browser.saved_run import SavedRun
from npuprof.browser.script import saved_script, saved_style

_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)


def fragment(run: SavedRun, picture: str, title: str = "explorer") -> str:
    """Return the explorer of a saved run as HTML.

    Without scripts `picture`, an SVG document, is shown. The data stands in an element of its own as base64, so that
    no name of the recording is a part of the HTML.
    """
    image = b64encode(picture.encode("utf-8", "surrogatepass")).decode()
    shown = f'<img alt="{escape(title)}" src="data:image/svg+xml;base64,{image}">' if picture else ""
    return (
        f'<div class="npuprof-saved"><style>{saved_style()}</style>'
        f'<div class="npuprof-saved-place" style="min-height:1px">{shown}</div>'
        f'<script type="application/octet-stream" class="npuprof-saved-data">{b64encode(run.data).decode()}</script>'
        f"<script>{saved_script()}</script></div>"
    )


def fragment_bytes(picture: str) -> int:
    """Return the size of a fragment without its data, in a notebook."""
    return (
        len(json.dumps([saved_script(), saved_style()])) + len(picture.encode("utf-8", "surrogatepass")) * 4 // 3 + 500
    )


def policy(page: str) -> str:
    """Return the content security policy of a page: nothing but its own scripts, known by their hashes, may run.

    Nothing is loaded. Styles may stand in elements; pictures are data of the page.
    """
    hashes = [b64encode(sha256(script.encode()).digest()).decode() for script in _SCRIPT.findall(page)]
    scripts = " ".join(f"'sha256-{known}'" for known in dict.fromkeys(hashes)) or "'none'"
    return f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data: blob:"
