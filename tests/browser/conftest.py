"""JupyterLab on this machine, and headless Chromium to look at it: one of each in a process that runs tests."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from tests import pace
from tests.browser.notebook_page import TOKEN, Desk, Lab, OpenNotebook

_CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
_START_S = 60


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of Chromium; the test is skipped where there is none."""
    found = os.environ.get("NPUPROF_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if not found:
        pytest.skip("no Chromium: install Debian's chromium, or set NPUPROF_CHROMIUM to its path")
    return found


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A JupyterLab with settings and runtime files of its own."""
    pytest.importorskip("jupyterlab")
    with _served("jupyterlab", tmp_path_factory.mktemp("lab")) as served:
        yield served


@pytest.fixture(scope="session")
def notebook7(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A Jupyter Notebook 7 with settings and runtime files of its own."""
    pytest.importorskip("notebook", minversion="7", reason="there is no Jupyter Notebook 7: pip install notebook")
    with _served("notebook", tmp_path_factory.mktemp("notebook7")) as served:
        yield served


@contextmanager
def _served(application: str, home: Path) -> Iterator[Lab]:
    folder = home / "notebooks"
    folder.mkdir()
    notifications = home / "settings" / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    notifications.parent.mkdir(parents=True)
    notifications.write_text('{"fetchNews": "false"}')  # else a question about news covers the corner
    port = _free_port()
    environment = {
        **os.environ,
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "IPYTHONDIR": str(home / "ipython"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
    }
    command = [sys.executable, "-m", application, "--no-browser", "--allow-root", f"--IdentityProvider.token={TOKEN}"]
    command += ["--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    command += [f"--ServerApp.root_dir={folder}", "--LabApp.news_url=None"]
    # So that a test can open, wait for and close what a user would.
    command += ["--LabApp.expose_app_in_browser=True", "--JupyterNotebookApp.expose_app_in_browser=True"]
    with (home / "server.log").open("wb") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_until_served(server, url, home / "server.log")
            yield Lab(url, folder, "lab/tree" if application == "jupyterlab" else "notebooks")
        finally:
            server.terminate()
            server.wait(timeout=pace.seconds(30))


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _wait_until_served(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + pace.seconds(_START_S)
    while time.monotonic() < deadline:
        if server.poll() is not None:
            break
        try:
            urlopen(f"{url}/api", timeout=pace.seconds(5)).close()
        except (URLError, OSError):
            time.sleep(0.1)
        else:
            return
    pytest.fail(f"Jupyter did not start:\n{log.read_text()[-3000:]}")


@pytest.fixture(scope="package")
def browser(chromium: str) -> Iterator[Any]:
    """One headless browser for the tests of this folder.

    Playwright runs an event loop in this thread for as long: other tests must not find it there.
    """
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=chromium, args=_CHROMIUM_FLAGS)
        make_context, make_page = running.new_context, running.new_page
        running.new_context = lambda **how: _watched(make_context(**how))
        running.new_page = lambda **how: _watched(make_page(**how).context).pages[0]
        yield running
        running.close()


_uncaught: list[str] = []
_OF_JUPYTER = re.compile(r"https?://[^\s)]*/static/")
_OF_OUTPUTS = re.compile(r"npuprof|anywidget|blob:|data:|file:")


def _watched(context: Any) -> Any:
    """Note what the pages of a context throw and nothing catches; what JupyterLab's own scripts throw is theirs."""

    def note(failure: Any) -> None:
        stack = str(getattr(failure.error, "stack", "") or "")
        if "Canceled future" in str(failure.error):  # a kernel that ends with its test leaves requests unanswered
            return
        if not _OF_JUPYTER.search(stack) or _OF_OUTPUTS.search(stack):
            _uncaught.append(f"{failure.page and failure.page.url}: {failure.error} {stack}")

    context.on("weberror", note)
    return context


@pytest.fixture(autouse=True)
def no_uncaught_error() -> Iterator[None]:
    """Fail a test during which a script of any page threw what nothing caught."""
    _uncaught.clear()
    yield
    assert _uncaught == []


@pytest.fixture(scope="package")
def context(browser: Any) -> Iterator[Any]:
    """What the pages of the tests have in common: above all the scripts of JupyterLab, loaded once."""
    made = browser.new_context()
    made.set_default_timeout(pace.milliseconds(60_000))
    yield made
    made.close()


@pytest.fixture(scope="package")
def desk(lab: Lab, context: Any) -> Iterator[Desk]:
    """A page of JupyterLab and a kernel, for the tests that need none of their own."""
    made = Desk(lab, context)
    yield made
    made.clear()


@pytest.fixture
def open_notebook(desk: Desk, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenNotebook]:
    """Open notebooks, which are closed after the test; their own kernels are ended."""
    failed_before = request.session.testsfailed
    yield desk.open
    desk.keep_pictures(tmp_path)  # what a failed test saw
    if request.session.testsfailed > failed_before:
        desk.clear()  # in whatever state it was left
    else:
        desk.close_notebooks()
