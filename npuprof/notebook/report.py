"""The report below a cell: outputs that are complete in a saved notebook, at most a megabyte each."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.display import display

from npuprof import interactive
from npuprof.errors import describe_failure
from npuprof.machine import shadowed
from npuprof.notebook.messages import tell
from npuprof.report.model import Fold, Markup, Report, code

if TYPE_CHECKING:
    from npuprof.profiles.comparison import Comparison
    from npuprof.profiles.profile import Profile
    from npuprof.ranks.profile_set import ProfileSet
    from npuprof.recordings.recording import Recording
    from npuprof.session.reruns import Rerun
    from npuprof.session.session import Session

_Bundle = dict[str, Any]

SAVED_BYTES = 1_000_000
"""The size of a report in a saved notebook."""

_DRAWN_FRAMES = 40  # of the flame graph's picture
_LEAST_SAMPLED_NS = 100_000_000  # below that, twenty samples of Python at most, plots show nothing


class SessionReports:
    """Shows the reports of a kernel, as :func:`show_session`; the first one says where recordings are kept."""

    def __init__(self) -> None:
        self._is_first = True

    def __call__(self, session: Session, saved_bytes: int = SAVED_BYTES) -> None:
        """Show the report of a stopped session."""
        kept, self._is_first = kept_text(session.options.output) if self._is_first else "", False
        show_session(session, saved_bytes, kept)


def kept_text(folder: Path) -> Markup:
    """Return where recordings are kept and how they are kept elsewhere."""
    place = folder.name if folder.is_absolute() else str(folder)  # a saved notebook names no folders of the user
    return (
        f"Recordings are kept in {code(place + '/')}. To keep them elsewhere: `--output FOLDER`, or "
        "`%env ASCEND_WORK_PATH=FOLDER` for the whole notebook."
    )


def show_session(session: Session, saved_bytes: int = SAVED_BYTES, kept: Markup = "") -> None:
    """Decode and show the recording of a stopped session; only an interrupt is raised.

    If decoding fails, the reason, the path of the recording and how to open it are shown. `saved_bytes` and `kept` are
    those of :func:`show_run`.
    """
    from npuprof.profiles.profile import Profile

    recording = session.recording
    try:
        run = session.result
    except Exception as error:  # noqa: BLE001 - shown; a report must not fail the user's cell
        _is_displayed([_failure("The recording could not be decoded", error, recording.directory, recording.problems)])
        return
    if not isinstance(run, Profile):
        show_set(run.read(), kept)
        return
    since_before = cache(partial(_since_before, run, recording))
    show_run(run, since_before, saved_bytes, kept)
    since_before()  # which lists of runs show, although nothing could be displayed
    for part in recording.parts:
        _show_part(part, recording)
    # On a full disk, even the recording's list of problems may be missing on disk: show it here.
    shown = set(run.notes["message"])
    if missing := [problem for problem in recording.problems if problem not in shown]:
        _is_displayed([_text("\n".join(f"npuprof: {problem}" for problem in missing))])


def _show_part(part: str, recording: Recording) -> None:
    """Show the summary of a cell that ran as a part of a run; a failure is shown instead."""
    from npuprof.session.executed_cells import part_of

    _show({f"report of {part}": lambda: _top(part_of(recording, part))}, recording.directory)


def _since_before(run: Profile, recording: Recording) -> Rerun | None:
    """Return what changed since the same cell ran before, and keep it in the recording."""
    from npuprof.session.history import attempt
    from npuprof.session.reruns import note_outcome, since_before

    try:
        rerun = since_before(run, recording)
        note_outcome(recording, run, rerun)
    except Exception as error:  # noqa: BLE001 - said instead; the report of the run is worth more
        tell(f"the run before could not be compared ({describe_failure(error)})")
        return None
    attempt(recording.write, recording)
    return rerun


def show_run(
    run: Profile,
    since_before: Callable[[], Rerun | None] | None = None,
    saved_bytes: int = SAVED_BYTES,
    kept: Markup = "",
) -> None:
    """Show the report of a run, then its folded parts, each as an output with a text equivalent.

    `since_before` compares the run with the run before, after the report is shown; `saved_bytes` is the size of both
    outputs, and `kept` the line below them. Where there is nothing to fold, there is one output. A failure is shown
    instead of the part; only an interrupt is raised.
    """
    top: list[_Bundle] = []

    def first() -> list[_Bundle]:
        top.extend(_top(run, kept if run._report.is_brief else ""))
        return top

    def second() -> list[_Bundle]:
        rerun = since_before() if since_before is not None else None
        if run._report.is_brief and rerun is None:
            return []
        return _folds(run, rerun, top, saved_bytes - len(json.dumps(top)), "" if run._report.is_brief else kept)

    _show({"report": first, "folded parts": second}, run.info.recording)


def show_comparison(comparison: Comparison) -> None:
    """Show the difference of two runs; a failure is shown instead, and only an interrupt is raised."""
    _show({"comparison": partial(_comparison, comparison)}, None)


def show_set(runs: ProfileSet, kept: Markup = "") -> None:
    """Show the report of a set of ranks; a failure is shown instead, and only an interrupt is raised.

    If it would need every rank to be read completely, the runs are listed with the call that reads them. `kept` is that
    of :func:`show_run`.
    """
    _show({"report": partial(_set, runs, kept)}, None)


def _show(parts: Mapping[str, Callable[[], list[_Bundle]]], recording: object) -> None:
    interactive.keep_keys()
    for subject, part in parts.items():
        try:
            bundles = part()
        except Exception as error:  # noqa: BLE001 - shown; the other part is still shown
            bundles = [_failure(f"The {subject} could not be made", error, recording)]
        if not _is_displayed(bundles):
            return


def _is_displayed(bundles: list[_Bundle]) -> bool:
    """Display outputs, and return whether that was possible: a cell may have closed the stream that they go to."""
    try:
        for bundle in bundles:
            try:
                display(bundle, raw=True)
            except UnicodeEncodeError:  # a terminal that shows ASCII alone
                display({"text/plain": bundle["text/plain"].encode("ascii", "replace").decode()}, raw=True)
    except Exception as error:  # noqa: BLE001 - said instead; a report must not fail the user's cell
        tell(f"the report cannot be displayed ({describe_failure(error)}): npuprof.last() has the run")
        return False
    return True


def _set(runs: ProfileSet, kept: Markup) -> list[_Bundle]:
    from npuprof.report.html import report_html
    from npuprof.report.text import report_text

    below = Report("", "", kept=kept)
    text, html = ("\n\n" + report_text(below), report_html(below, "folds")) if kept else ("", "")
    return [{"text/plain": f"{runs}{text}", "text/html": f"{runs._repr_html_()}{html}"}]


def _comparison(comparison: Comparison) -> list[_Bundle]:
    return [{"text/plain": str(comparison), "text/html": comparison._repr_html_()}]


def _top(run: Profile, kept: Markup = "") -> list[_Bundle]:
    from npuprof.report.html import report_html
    from npuprof.report.text import report_text

    report = replace(run._report, kept=kept)
    return [{"text/plain": report_text(report), "text/html": report_html(report, "all" if kept else "top")}]


def _folds(run: Profile, rerun: Rerun | None, top: list[_Bundle], saved_bytes: int, kept: Markup) -> list[_Bundle]:
    """Return the folded parts, after the changes since the run before, and above the place of recordings."""
    from npuprof.report.difference import since_text
    from npuprof.report.html import report_html
    from npuprof.report.run import folds_of_run
    from npuprof.report.text import report_text

    explorer, script = _explorer(run, saved_bytes)
    folds = folds_of_run(run, lambda: run._user_code, explorer[0]["text/html"] if explorer else "")
    report = replace(run._report, folds=folds, kept=kept, script=script)
    texts = [bundle["text/plain"] for bundle in explorer]
    if rerun is not None:
        change = rerun.report()
        since = since_text(rerun.comparison, change)
        report = replace(report, since=since, folds=[Fold("What changed", reports=[change]), *folds])
        texts.insert(0, report_text(Report("", "", sentence=since, changes=change.changes)))
    texts += [report_text(Report("", "", kept=kept))] if kept else []
    above = "".join(bundle["text/html"] for bundle in top)
    return [{"text/plain": "\n\n".join(texts), "text/html": report_html(report, "folds", above)}]


def _explorer(run: Profile, limit_bytes: int) -> tuple[list[_Bundle], str]:
    """Return the explorer of a run without a kernel, and its script.

    Front ends without scripts show its pictures, or its text.
    """
    import numpy as np

    from npuprof.browser.page import fragment
    from npuprof.exports.explorer import SavedExplorer, saved_explorer
    from npuprof.exports.text_figures import flamegraph_text, timeline_text
    from npuprof.figures.drawing import figure_svg
    from npuprof.flame.figure import Weight, flamegraph_of_calls
    from npuprof.flame.tree import merged_calls
    from npuprof.notebook.budget import left_out, left_out_text
    from npuprof.report.facts import nothing_text
    from npuprof.timeline.state import Timeline
    from npuprof.timeline.svg import SMALL_BYTES, timeline_svg
    from npuprof.timeline.view import Pictures

    sampled_ns = int(run.python["duration_ns"].to_numpy(np.int64).max(initial=0))
    if sampled_ns < _LEAST_SAMPLED_NS and nothing_text(run.summary, run.info):
        return [], ""  # the summary says why; empty plots would push the next cell out of sight
    left = left_out(run.tables)
    weight: Weight = "device" if len(run.kernels) else "host"
    texts, drawn = [], {}
    if "timeline" not in left:
        pictures = Pictures(run.tables)
        texts.append(timeline_text(run.tables, pictures=pictures))
        drawn["Timeline"] = timeline_svg(run.tables, run.info, pictures=pictures, limit_bytes=SMALL_BYTES)
    calls = None if "flamegraph" in left and "explore" in left else merged_calls(run.tables)
    if "flamegraph" not in left and calls is not None:
        texts.append(flamegraph_text(run.tables, weight, calls))
        drawn["Flame graph"] = figure_svg(flamegraph_of_calls(calls, run.tables, run.info, weight, _DRAWN_FRAMES))
    missing = left_out_text(left, _code_of(run))
    text = "\n\n".join([*texts, *([missing] if missing else [])])
    if "explore" in left:
        saved = SavedExplorer(None, fragment(None, drawn) if drawn else "")
    else:
        saved = saved_explorer(
            Timeline(run.tables, run.info, run.aligned, is_saved=True),
            run.advice(),
            None if "critical_path" in left else run.critical_path,
            limit_bytes=limit_bytes - len(json.dumps(text)),
            annotations=run.annotations,
            pictures=drawn,
            calls=calls,
        )
    html = saved.body + (f"<p>{escape(missing)}</p>" if missing else "")
    return [{"text/plain": text, "text/html": html}], saved.script


def _code_of(run: Profile) -> str:
    """Return code that stands for the run."""
    from npuprof.session.active import newest

    last = newest()
    is_last = last is not None and last.recording.directory == run.info.recording
    return "npuprof.last()" if is_last else "run"  # whatever the user calls it


def _failure(subject: str, error: BaseException, recording: object, problems: list[str] | None = None) -> _Bundle:
    """Return the output for a failure, with the call that loads the recording again."""
    lines = [
        f"npuprof: {subject}: {describe_failure(error)}",
        *(f"Before that: {problem}" for problem in problems or ()),
    ]
    if cause := shadowed.explanation(error):
        lines.append(f"Likely cause: {cause}")
    if recording is not None:
        lines.append(f"The recording is kept. To try again: npuprof.load({str(recording)!r})")
    return _text("\n".join(lines))


def _text(text: str) -> _Bundle:
    return {"text/plain": text, "text/html": f'<pre class="npuprof-message">{escape(text)}</pre>'}
