"""The report under a cell: messages that are complete in a saved notebook and never more than a megabyte."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from IPython.display import display

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from npuprof.profiles import Profile
    from npuprof.session import Session

MAX_BYTES = 1_000_000
"""The most that all messages of a report hold together, as JSON."""

PLOTLY_MIME_TYPE = "application/vnd.plotly.v1+json"

_Bundle = dict[str, Any]


def show_session(session: Session) -> None:
    """Decode what a stopped session recorded and show it; never raises.

    Where decoding fails or is interrupted, what is shown instead says why, where the recording is and how
    to open it.
    """
    recording = session.recording
    try:
        run = session.result
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - a report never ends the user's cell; told
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
    """Show the summary, the timeline and the flame graph of a run, each in a message of its own; never raises."""
    left = MAX_BYTES
    for what, part in _PARTS.items():
        try:
            bundle = part(run)
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the other parts are shown all the same; told
            bundle = _failure(f"The {what} could not be made", error, run.info.recording)
        size = len(json.dumps(bundle))
        if size > left:
            bundle = _text(f"The {what} is left out here: it would make the report larger than a megabyte.")
            size = 0
        left -= size
        display(bundle, raw=True)


def figure_bundle(figure: go.Figure, text: str) -> _Bundle:
    """Give the message of a figure: its data alone, for the renderer that the front end has.

    Parameters
    ----------
    figure
        A plotly figure.
    text
        What is shown where plotly is not.
    """
    # Through plotly's own JSON, so that arrays travel as it packs them; its renderers, which write
    # scripts and addresses of other hosts, have no part in it.
    plain = json.loads(figure.to_json())
    plain["config"] = {"displaylogo": False, "responsive": True}
    return {PLOTLY_MIME_TYPE: plain, "text/plain": text}


def _summary(run: Profile) -> _Bundle:
    from npuprof.exports.html import report_html
    from npuprof.exports.text import summary_text

    facts = (run.summary, run.info, run.notes)
    return {"text/plain": summary_text(*facts), "text/html": report_html(*facts)}


def _timeline(run: Profile) -> _Bundle:
    return figure_bundle(run.timeline(), "[timeline: shown where plotly figures are; Profile.timeline() draws it]")


def _flamegraph(run: Profile) -> _Bundle:
    return figure_bundle(
        run.flamegraph(), "[flame graph: shown where plotly figures are; Profile.flamegraph() draws it]"
    )


_PARTS: Mapping[str, Callable[[Profile], _Bundle]] = {
    "summary": _summary,
    "timeline": _timeline,
    "flame graph": _flamegraph,
}


def _failure(what: str, error: BaseException, recording: object, problems: list[str] | None = None) -> _Bundle:
    """Say what failed and that the recording is there to be opened again."""
    from npuprof.running import describe_failure

    lines = [f"npuprof: {what}: {describe_failure(error)}", *(f"Before that: {problem}" for problem in problems or ())]
    if recording is not None:
        lines.append(f"The recording is kept. To try again: npuprof.load({str(recording)!r})")
    return _text("\n".join(lines))


def _text(text: str) -> _Bundle:
    return {"text/plain": text, "text/html": f'<pre class="npuprof-message">{escape(text)}</pre>'}
