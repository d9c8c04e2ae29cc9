"""Hostile names in a real browser: no script of theirs runs, no dialog opens, and nothing is asked of any network.

Pages of runs whose every name is hostile are opened in headless Chromium, and the tests of JupyterLab with hostile
names run too.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from playwright.sync_api import Dialog, Request, sync_playwright

from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from tests import factories
from tests.campaign.speed import slowness
from tests.campaign.tally import Tally

_PAGES = 20
_TIMEOUT_MS = 30_000.0
_WORDS = (
    "<img src=x onerror=window.pwned=1>",
    "</script><script>window.pwned=2</script>",
    "<a href='javascript:window.pwned=3'>x</a>",
    "<svg/onload=window.pwned=4>",
    "<link rel=stylesheet href=http://192.0.2.1/x.css>",
    "<iframe src=http://192.0.2.1/></iframe>",
    "<meta http-equiv=refresh content='0;url=http://192.0.2.1/'>",
    '"><b onmouseover=window.pwned=5>',
    "${window.pwned=6}",
    "{{constructor.constructor('window.pwned=7')()}}",
    "<!--",
    "]]>",
    "\u2028window.pwned=8//",
    "\u202e\u0000\u001b[31m",
    "<style>@import 'http://192.0.2.1/y.css'</style>",
    "%{x}<br>https://192.0.2.1/",
)


def run(folder: Path) -> list[Tally]:
    """Open the pages and run the hostile tests of the browser room."""
    folder.mkdir()
    return [_pages(folder), _rooms()]


def _pages(folder: Path) -> Tally:
    tally = Tally("browser pages")
    begin, slow = time.monotonic(), slowness()
    chance = random.Random(1)
    path = os.environ.get("NPUPROF_CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for number in range(_PAGES):
            names = ["".join(chance.choices(_WORDS, k=3)) for _ in range(5)]
            tables = factories.all_tables(**factories.profile(40, kernel_names=names))
            run = Profile(Decoded(tables=tables, info=factories.info(name=names[0], chip=names[1])))
            file = run.to_html(folder / f"{number}.html")
            asked: list[str] = []
            page = browser.new_page()
            page.set_default_timeout(_TIMEOUT_MS * slow)
            page.on("request", partial(_note_request, asked))
            page.on("dialog", partial(_note_dialog, asked))
            page.goto(file.as_uri())
            page.wait_for_load_state("load")
            page.mouse.move(400, 400)
            asked = [url for url in asked if not url.startswith((file.as_uri(), "data:", "blob:"))]
            tally.tried += 1
            if page.evaluate("() => window.pwned") is not None:
                tally.losses += 1
                tally.finds.append(f"a name runs as a script: {names}")
            if asked:
                tally.losses += 1
                tally.finds.append(f"the page asks for {asked[:3]}: {names}")
            page.close()
        browser.close()
    tally.seconds = time.monotonic() - begin
    return tally


def _note_request(asked: list[str], request: Request) -> None:
    asked.append(request.url)


def _note_dialog(asked: list[str], dialog: Dialog) -> None:
    asked.append("a dialog")
    dialog.dismiss()


def _rooms() -> Tally:
    begin = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", "tests/browser", "-k", "hostile"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    tally = Tally("browser tests", tried=1, seconds=time.monotonic() - begin)
    if done.returncode:
        tally.crashes = 1
        tally.finds.append(done.stdout.strip().splitlines()[-1])
    return tally
