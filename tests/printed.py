"""What a page or a notebook shows, as words: executions of one cell show the same words, and figures of their own."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

_TAGS = re.compile(r"<(style|script)\b.*?</\1>|<[^>]*>", re.DOTALL | re.IGNORECASE)
_WITHIN = re.compile(r'(?:</span>)?<span class="npuprof-(?:more|rest)">')  # parts of a line of code
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_BARS = re.compile(r"\|[ ▁▂▃▄▅▆▇█·]+\||[▁▂▃▄▅▆▇█·░▒▓─]+")
_MADE = re.compile(r"(?<=npuprof-)([a-z-]+)-[a-z0-9_]{8}\b")  # a folder of tempfile
_FOLDERS = re.compile(r"(?<![\w.)])/([\w.~+-]+/)+(?=[\w.-]+\.py\b)")
_LONGER = re.compile(r": # as usual, and # since # steps? takes? longer(?=[,)])")  # where a step does
_IDLE_LINES = re.compile(r"; at .{1,200}?\(#[ %]*\)( and .{1,200}?\(#[ %]*\))?(?=;| ->|$)")  # those above a share
_PLURAL = re.compile(r"(?<=# )([a-z]+[^s])s\b")  # 1 slice, 2 slices
_FIGURE = re.compile(r"[-+−]?\d[\d,]*(\.\d+)?(e[-+]?\d+)?( ?(ns|[µu]s|ms|s|k?B|[MGT]i?B|KiB|[kMGT]|%)(?![A-Za-z]))?")
_CUT = re.compile(r"…\w*(?= ?#)")  # a title before a number, cut where the number's digits say
_SEVERAL = re.compile(r"#( ?[-–x×:/,;.]? ?#)+")
_PLOTLY = "application/vnd.plotly.v1+json"
_WRAPPED = ("text/plain", "stdout")
_SEEN = ("text/plain", "text/html", "image/svg+xml", _PLOTLY)


def words(text: str) -> list[str]:
    """Return the lines of a text without their figures: times, sizes, shares, counts and dates are ``#``.

    Lines of nothing but figures are left out: a plot has as many ticks as its figures ask for.
    """
    lines = []
    for line in _COLOURS.sub("", text).replace("cannot tell: ", "\ncannot tell: ").splitlines():
        plain = _FIGURE.sub("#", _MADE.sub(r"\1", _FOLDERS.sub("", _BARS.sub(" ", line))))
        plain = _CUT.sub("…", plain.replace("< #", "#").replace("> #", "#"))
        plain = _IDLE_LINES.sub("", _LONGER.sub("", plain))
        plain = _PLURAL.sub(r"\1", _SEVERAL.sub("#", " ".join(plain.split())))
        if plain.strip("#-. "):
            lines.append(plain)
    return lines


def of_output(output: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of what one output of a cell shows."""
    if output["output_type"] == "stream":
        yield output["name"], output["text"]
    elif output["output_type"] == "error":
        yield "error", f"{output['ename']}: {output['evalue']}"
    else:
        for kind in sorted(output["data"]):
            value = output["data"][kind]
            if kind == "text/plain" and "text/html" in output["data"]:
                yield kind, ""  # the same, with line breaks where figures say
            elif kind == _PLOTLY:
                yield kind, "\n".join(_of_plot(value["layout"]))
            elif kind == "image/svg+xml":
                yield kind, html.unescape(_TAGS.sub("\n", value)).strip().partition("\n")[0]  # of the plot above
            elif kind == "text/html":
                yield kind, html.unescape(_TAGS.sub("\n", _WITHIN.sub("", value)))
            else:
                yield kind, value if kind in _SEEN else ""


def _of_plot(layout: Any) -> Iterator[str]:
    """Yield the titles of a plot and of its axes."""
    if isinstance(layout, Mapping):
        for name, value in layout.items():
            if name == "title" and isinstance(value, Mapping) and value.get("text"):
                yield html.unescape(_TAGS.sub("\n", value["text"]))
            elif name != "template":
                yield from _of_plot(value)


def of_cell(outputs: Iterable[Mapping[str, Any]]) -> list[tuple[str, list[str]]]:
    """Return the kinds and the words of what a cell shows, without progress, which ends empty."""
    texts: list[tuple[str, str]] = []
    for output in outputs:
        for kind, text in of_output(output):
            if output["output_type"] == "stream" and texts and texts[-1][0] == kind:
                texts[-1] = (kind, texts[-1][1] + text)
            elif text or kind not in _SEEN:
                texts.append((kind, text))
    return [(kind, words(text)) for kind, text in texts]


def differences(saved: Sequence[Any], executed: Sequence[Any], may_differ: Sequence[str] = ()) -> list[str]:
    """Return what one execution of a cell shows otherwise than the saved one, empty if nothing.

    Pages are compared line by line, in any order, since tables are sorted by figures; plain text, whose lines break
    where figures say, word by word; of a picture its title, since it is drawn from the plot beside it.

    Parameters
    ----------
    saved, executed
        The outputs of the cell.
    may_differ
        Expressions of lines, and of words, that may be in one of them only.
    """
    marked = re.compile("|".join(may_differ) or r"(?!)")
    before, after = of_cell(saved), of_cell(executed)
    kinds = [[kind for kind, _ in shown] for shown in (before, after)]
    if kinds[0] != kinds[1]:
        return [f"kinds: saved {', '.join(kinds[0])}; executed {', '.join(kinds[1])}"]
    changes = []
    for (kind, old), (_, new) in zip(before, after, strict=True):
        changes += [f"{kind} - {part}" for part in _only_in(kind, old, new) if not marked.search(part)]
        changes += [f"{kind} + {part}" for part in _only_in(kind, new, old) if not marked.search(part)]
    return changes


def _only_in(kind: str, lines: Sequence[str], others: Sequence[str]) -> Iterable[str]:
    if kind in _WRAPPED:
        whole, other = (_IDLE_LINES.sub("", " ".join(each)).split() for each in (lines, others))
        return dict.fromkeys(word for word in whole if word not in set(other))
    return dict.fromkeys(line for line in lines if line not in others)
