"""A saved explorer as HTML: a fragment that needs nothing else, for an output or a page, and the policy of a page."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from html import escape

from npuprof.browser.packing import as_text
from npuprof.browser.saved_run import SavedRun
from npuprof.browser.script import packed_program, saved_script, unpacking_script

_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)
_PROGRAM = "npuprof-saved-program"


def opening_script() -> str:
    """Return the script element that opens a saved run: the first in its parent that is not open yet.

    Place it outside of folds: VS Code runs the rendered text of scripts, which is empty in a closed fold.
    """
    return f"<script>{unpacking_script()}</script>"


def fragment(run: SavedRun | None, pictures: Mapping[str, str]) -> str:
    """Return the explorer of a saved run as HTML, for :func:`opening_script` after it; of None only its pictures.

    Without scripts the pictures, SVG documents by title, are shown. The data is in an element of its own, so that no
    name of the recording is a part of the HTML.
    """
    shown = "".join(
        f'<div><img alt="{escape(title)}" style="max-width:100%;height:auto" '
        f'src="data:image/svg+xml;base64,{_encoded(picture)}"></div>'
        for title, picture in pictures.items()
        if picture
    )
    if run is None:
        return shown
    return (
        '<div class="npuprof-saved">'
        f'<div class="npuprof-saved-place" style="min-height:1px">{shown}</div>'
        f'<script type="application/octet-stream" class="npuprof-saved-data">{as_text(run.data)}</script>'
        f'<script type="application/octet-stream" class="{_PROGRAM}">{packed_program()}</script></div>'
    )


def fragment_bytes(pictures: Mapping[str, str]) -> int:
    """Return the size of a fragment without its data, in a notebook."""
    return len(json.dumps(fragment(SavedRun(b"", 0, 0, ()), pictures) + opening_script()))


def _encoded(picture: str) -> str:
    return b64encode(picture.encode("utf-8", "surrogatepass")).decode()


def policy(page: str) -> str:
    """Return the content security policy of a page: nothing but its own scripts, known by their hashes, may run.

    Nothing is loaded. Styles may stand in elements; pictures are data of the page.
    """
    found = [*_SCRIPT.findall(page), *([saved_script()] if f'class="{_PROGRAM}"' in page else [])]
    hashes = [b64encode(sha256(script.encode()).digest()).decode() for script in found]
    scripts = " ".join(f"'sha256-{known}'" for known in dict.fromkeys(hashes)) or "'none'"
    return f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data: blob:"
