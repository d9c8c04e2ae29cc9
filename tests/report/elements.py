"""HTML as its elements: what a test looks for in a report."""

from __future__ import annotations

from html.parser import HTMLParser

HOSTILE = "</td><script>alert(1)</script><img src=x onerror=alert(1)>"
_VOID = ("meta", "img", "br")


class Elements(HTMLParser):
    """Names and attributes of all elements, and the text between them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] != "style":
            self.text += data.replace("\u00a0", " ")  # between a number and its unit
