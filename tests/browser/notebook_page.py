"""A notebook in JupyterLab, run cell by cell as a user does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.request import Request, urlopen

from tests import pace, saved_notebooks

TOKEN = "npuprof-tests"
_WAIT_MS = 60_000
_QUIET_MS = 400
_NUMBERED = re.compile(r"\[\d+\]")

_OPEN = """async ([path, kernel]) => {
    const shown = await jupyterapp.commands.execute(
        'docmanager:open', {path, factory: 'Notebook', ...(kernel ? {kernel: {id: kernel}} : {})});
    await shown.context.ready;
    await shown.sessionContext.ready;
    await shown.sessionContext.session.kernel.info;  // it is connected: nothing that is asked of it gets lost
    return shown.sessionContext.session.kernel.id;
}"""
_CLOSE = """async own => {
    const shown = jupyterapp.shell.currentWidget;
    if (own) await shown.sessionContext.shutdown();
    shown.context.model.dirty = false;
    shown.dispose();
}"""
# What the cells of one notebook made must not be there for those of the next.
_FORGET = """async () => {
    const kernel = jupyterapp.shell.currentWidget.sessionContext.session.kernel;
    // Widgets are answered while a cell runs, and the kernel says idle after each answer: the cell's prompt knows.
    const running = [...document.querySelectorAll('.jp-Notebook .jp-InputPrompt')].some(p => p.innerText.includes('*'));
    if (running || kernel.status !== 'idle') await kernel.interrupt();
    await kernel.requestExecute({code: 'import ipywidgets\\nipywidgets.Widget.close_all()', silent: true}).done;
    await kernel.requestExecute({code: '%reset -f', silent: true}).done;
    // Nor how they arranged lanes, and how high a view was.
    const module = "__import__('sys').modules.get('npuprof.notebook.explorer.timeline')";
    await kernel.requestExecute({code: `getattr(${module}, '_layout', {}).clear()`, silent: true}).done;
    localStorage.removeItem('npuprof arrangement');
}"""
_SETTLED = """quiet => new Promise(done => {
    let timer;
    const later = () => { clearTimeout(timer); timer = setTimeout(look, quiet); };
    const watch = new MutationObserver(later);
    const look = () => {
        if (jupyterapp.shell.currentWidget.sessionContext.session.kernel.status !== 'idle') return later();
        watch.disconnect();
        done();
    };
    watch.observe(document.querySelector('.jp-Notebook'),
        {subtree: true, childList: true, attributes: true, characterData: true});
    later();
})"""


class Lab(NamedTuple):
    """A running JupyterLab or Notebook: its address, the folder that it shows, and where it opens notebooks."""

    url: str
    folder: Path
    opened_at: str = "lab/tree"

    def notebook_url(self, name: str) -> str:
        return f"{self.url}/{self.opened_at}/{name}?token={TOKEN}&reset"

    def trust(self, name: str) -> None:
        """Trust a notebook, as one does whose own kernel ran it."""
        asked = Request(f"{self.url}/api/contents/{name}/trust?token={TOKEN}", data=b"")
        urlopen(asked, timeout=pace.seconds(30)).close()


def wait_until_enabled(control: Any, *, enabled: bool = True) -> None:
    """Wait until a control can be used; or cannot."""
    from playwright.sync_api import expect

    expect(control).to_be_enabled(enabled=enabled, timeout=pace.milliseconds(_WAIT_MS))


def wait_for_text(place: Any, text: str) -> None:
    """Wait until a text is in a place."""
    from playwright.sync_api import expect

    expect(place).to_contain_text(text, timeout=pace.milliseconds(_WAIT_MS))


def wait_until_described(control: Any, words: str) -> None:
    """Wait until a control is described by an element, and by its title, in which some words are."""
    from playwright.sync_api import expect

    described = control.and_(control.page.locator("[aria-describedby]"))
    said, timeout = re.compile(re.escape(words)), pace.milliseconds(_WAIT_MS)
    expect(described).to_have_accessible_description(said, timeout=timeout)
    expect(described).to_have_attribute("title", said, timeout=timeout)


def settle(page: Any) -> None:
    """Wait until the kernel has answered and nothing in the notebook changes any more.

    A view that is drawn tells the kernel its width, and is drawn again when that has answered.
    """
    _ask(page, _SETTLED, pace.milliseconds(_QUIET_MS))


def _ask(page: Any, script: str, given: Any = None) -> Any:
    """Return what JupyterLab answers in good time; Playwright itself would wait for ever."""
    late = f"new Promise((_, fail) => setTimeout(() => fail(Error('no answer')), {pace.milliseconds(_WAIT_MS)}))"
    return page.evaluate(f"given => Promise.race([({script})(given), {late}])", given)


class NotebookPage(NamedTuple):
    """An open notebook; `page` is Playwright's."""

    page: Any

    def start(self, number: int) -> Any:
        """Run a cell without waiting for its end; gives its locator."""
        cell = self.cell(number)
        cell.locator(".cm-content").click()
        self.page.keyboard.press("Control+Enter")
        return cell

    def run(self, number: int) -> Any:
        """Run a cell to its end; gives its locator."""
        cell = self.start(number)
        cell.locator(".jp-InputPrompt", has_text=_NUMBERED).wait_for()
        return cell

    def cell(self, number: int) -> Any:
        return self.page.locator(".jp-Notebook .jp-Cell").nth(number)


_NAMED_KEYS = {
    "←": "ArrowLeft",
    "→": "ArrowRight",
    "↑": "ArrowUp",
    "↓": "ArrowDown",
    "Page up": "PageUp",
    "Page down": "PageDown",
}


def press_advertised_keys(page: Any) -> list[str]:
    """Press each key that the timeline's help lists, after a click in it; gives them as they are listed.

    The one that gives the keys back comes last, and is left to the test.
    """
    page.keyboard.press("?")
    listed: list[str] = page.locator(".npuprof-timeline .help kbd").all_inner_texts()
    page.keyboard.press("?")
    for name in listed:
        if name == "Esc":
            continue
        page.keyboard.press(_NAMED_KEYS.get(name, name))
        if name in ("/", "?"):  # the search field has the focus, or the list is open
            page.keyboard.press("Escape")
    return listed


class OpenNotebook(Protocol):
    """How a test opens a notebook: see `Desk.open`."""

    def __call__(
        self,
        cells: Sequence[str] | Any,
        *,
        width: int = 1400,
        height: int = 2600,
        dark: bool = False,
        own_kernel: bool = False,
        own_page: bool = False,
    ) -> NotebookPage: ...


class _Opened(NamedTuple):
    page: Any
    has_own_kernel: bool


class Desk:
    """JupyterLab in a page that stays open from test to test, and a kernel that stays with it.

    A page of its own is for tests of what happens first in one; a kernel of its own for those that depend on what
    has run in it.
    """

    def __init__(self, lab: Lab, context: Any) -> None:
        self._lab = lab
        self._context = context
        self._page: Any = None
        self._kernel: str | None = None
        self._count = 0
        self._opened: list[_Opened] = []

    def open(
        self,
        cells: Sequence[str] | Any,
        *,
        width: int = 1400,
        height: int = 2600,
        dark: bool = False,
        own_kernel: bool = False,
        own_page: bool = False,
    ) -> NotebookPage:
        """Open a notebook of some cells, or one that is given whole, and wait until its kernel answers.

        The page is tall, so that JupyterLab, which draws only the cells in view, draws them all.
        """
        self._count += 1
        name = f"notebook_{self._count}.ipynb"
        notebook = cells if isinstance(cells, dict) else saved_notebooks.new(cells)
        saved_notebooks.write(notebook, self._lab.folder / name)
        page = self._new_page() if own_page else self._shared_page()
        page.set_viewport_size({"width": width, "height": height})
        self._opened.append(_Opened(page, own_kernel))
        theme = "JupyterLab Dark" if dark else "JupyterLab Light"
        _ask(page, "theme => jupyterapp.commands.execute('apputils:change-theme', {theme})", theme)
        page.wait_for_selector(f"body[data-jp-theme-light={str(not dark).lower()}]", state="attached")
        kernel = _ask(page, _OPEN, [name, None if own_kernel else self._kernel])
        if not own_kernel:
            self._kernel = kernel
        page.wait_for_selector(".jp-Notebook .jp-Cell")
        return NotebookPage(page)

    def keep_pictures(self, folder: Path) -> None:
        """Write what is to be seen of each notebook that is open."""
        for number, opened in enumerate(self._opened):
            opened.page.screenshot(path=folder / f"end_{number}.png")

    def close_notebooks(self) -> None:
        """Close what is open; end the kernels that were for one test."""
        for page, has_own_kernel in self._opened:
            if not has_own_kernel:
                _ask(page, _FORGET)
            _ask(page, _CLOSE, has_own_kernel)
            if page is not self._page:
                page.close()
        self._opened.clear()

    def clear(self) -> None:
        """Close the page that tests share as well, and end all kernels."""
        for page in {self._page, *(opened.page for opened in self._opened)} - {None}:
            _ask(page, "() => jupyterapp.serviceManager.sessions.shutdownAll()")
            page.close(run_before_unload=False)
        self._opened.clear()
        self._page = self._kernel = None

    def _shared_page(self) -> Any:
        if self._page is None:
            self._page = self._new_page()
        return self._page

    def _new_page(self) -> Any:
        page = self._context.new_page()
        page.goto(f"{self._lab.url}/lab?token={TOKEN}&reset")
        # Also over a page that JupyterLab opens once more, as it does when it forgets a workspace.
        page.wait_for_function(
            "() => window.jupyterapp?.restored.then(() => true)", timeout=pace.milliseconds(_WAIT_MS)
        )
        return page
