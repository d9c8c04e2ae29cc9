"""The report under a cell: messages that are complete in a saved notebook and never more than a megabyte."""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING, Any

from IPython.display import display

if TYPE_CHECKING:
    from npuprof.profiles import Profile
    from npuprof.session.session import Session

_Bundle = dict[str, Any]

# JupyterLab's renderer of plotly saves a picture of each figure as wide as the window was then, and shows that when the
# notebook is opened again, until the mouse comes over it. In a narrower window it would be cut off.
_SAVED_PICTURES = (
    "<style>.jp-OutputArea:has(.npuprof-report) .jp-RenderedPlotly>.plot-img{max-width:100%;height:auto}</style>"
)


def show_session(session: Session) -> None:
    """Decode what a stopped session recorded and show it; raises nothing but an interrupt.

    Where decoding fails, what is shown instead says why, where the recording is and how to open it.
    """
    recording = session.recording
    try:
        run = session.result
    except Exception as error:  # noqa: BLE001 - a report never ends the user's cell; told
        display(
            _failure("The recording could not be decoded", error, recording.directory, recording.problems), raw=True
        )
        return
    show_run(run)
    # A full disk keeps even the recording's list of problems from being written: they are told here.
    told = set(run.notes["message"])
    if untold := [problem for problem in recording.problems if problem not in told]:
        display(_text("\n".join(f"npuprof: {problem}" for problem in untold)), raw=True)


def show_run(run: Profile) -> None:
    """Show the summary, the timeline and the flame graph of a run, each in a message of its own.

    What fails is told in its place; nothing but an interrupt is raised.
    """
    for what, part in (("summary", _summary), ("figures", _figures)):
        try:
            bundles = part(run)
        except Exception as error:  # noqa: BLE001 - the other part is shown all the same; told
            bundles = [_failure(f"The {what} could not be made", error, run.info.recording)]
        for bundle in bundles:
            display(bundle, raw=True)


def _summary(run: Profile) -> list[_Bundle]:
    from npuprof.exports.html import report_html
    from npuprof.exports.text import summary_text

    facts = (run.summary, run.info, run.notes)
    return [{"text/plain": summary_text(*facts), "text/html": _SAVED_PICTURES + report_html(*facts)}]


def _figures(run: Profile) -> list[_Bundle]:
    # As data for the renderer that the front end has: plotly's own, which write scripts and addresses of
    # other hosts, have no part in it.
    from npuprof.exports.html import LIMIT_BYTES, report_figures
    from npuprof.figures.embed import mimebundle
    from npuprof.timeline.svg import timeline_svg

    # A viewer shows the richest form that it can draw, and one alone: plotly's where there is a renderer of it, else
    # the picture.
    picture = timeline_svg(run.tables, run.info)
    room = LIMIT_BYTES - len(json.dumps(picture))
    timeline, flame_graph = report_figures(run.tables, run.info, limit_bytes=room)
    return [
        {
            **mimebundle(timeline),
            "image/svg+xml": picture,
            "text/plain": "[timeline: shown where plotly figures are; run.timeline() draws it]",
        },
        {
            **mimebundle(flame_graph),
            "text/plain": "[flame graph: shown where plotly figures are; run.flamegraph() draws it]",
        },
    ]


def _failure(what: str, error: BaseException, recording: object, problems: list[str] | None = None) -> _Bundle:
    """Return what failed and that the recording is there to be opened again."""
    from npuprof.errors import describe_failure

    lines = [f"npuprof: {what}: {describe_failure(error)}", *(f"Before that: {problem}" for problem in problems or ())]
    if recording is not None:
        lines.append(f"The recording is kept. To try again: npuprof.load({str(recording)!r})")
    return _text("\n".join(lines))


def _text(text: str) -> _Bundle:
    return {"text/plain": text, "text/html": f'<pre class="npuprof-message">{escape(text)}</pre>'}
