"""The widgets of the panel's options."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from html import escape
from typing import Any

import ipywidgets as widgets

from npuprof.notebook.panel.controller import PanelController
from npuprof.notebook.panel.form import CONTROLS, LISTS, SWITCHES

_LABEL = {"description_width": "initial"}


class FormView:
    """Controls that follow the rules of the options.

    Parameters
    ----------
    panel
        The controller.
    observed
        Converts an action on the new value of a control to a callback.
    """

    def __init__(self, panel: PanelController, observed: Callable[[Callable[[Any], object]], Any]) -> None:
        self._panel = panel
        self._make_choices(panel)
        self._make_texts(panel)
        for name, control in {**self._lists, **self._switches, **self._texts}.items():
            control.observe(observed(_chooser(panel, name)), "value")
        for word, control in self._activities.items():
            control.observe(observed(self._activity_chooser(word)), "value")
        self._reasons = widgets.HTML()
        self._line = widgets.HTML()
        self.widget = widgets.VBox(
            [
                _row(self._lists.values()),
                _row(self._activities.values(), "npuprof-switches"),
                _row(self._switches.values(), "npuprof-switches"),
                _row(self._texts.values()),
                self._reasons,
                self._line,
            ]
        )
        self.widget.layout.overflow = "visible"

    def _make_choices(self, panel: PanelController) -> None:
        form = panel.form
        self._lists = {
            name: widgets.Dropdown(
                options=[(str(value), value) for value in LISTS[name]],
                value=form.chosen(name),
                description=CONTROLS[name].panel,
                tooltip=CONTROLS[name].brief,
                style=_LABEL,
                layout={"width": "auto"},
            )
            for name in LISTS
            if name != "activities"
        }
        self._switches = {
            name: widgets.Checkbox(
                value=form.chosen(name), description=_spoken(name), indent=False, tooltip=option.brief
            )
            for name, option in SWITCHES.items()
        }
        self._activities = {
            word: widgets.Checkbox(value=False, description=f"watch {word}", indent=False)
            for word in LISTS["activities"]
        }

    def _make_texts(self, panel: PanelController) -> None:
        texts = {name: option for name, option in CONTROLS.items() if name not in LISTS and not option.is_switch}
        labels = {name: (option.panel, option.brief) for name, option in texts.items()}
        self._texts = {
            name: widgets.Text(
                value=str(panel.form.chosen(name)),
                description=label,
                placeholder=placeholder,
                style=_LABEL,
                layout={"width": "auto", "flex": "1 1 260px"},
                continuous_update=True,
            )
            for name, (label, placeholder) in {
                **labels,
                "more": ("More", "other options as for %%npuprof: --host-sys cpu,mem"),
            }.items()
        }

    def refresh(self) -> None:
        """Show the selected values, and why options are unavailable."""
        form = self._panel.form
        reasons: dict[str, list[str]] = defaultdict(list)
        for name, control in {**self._lists, **self._switches, **self._texts}.items():
            why = form.why_not(name)
            if why:
                reasons[why].append(_spoken(name))
            control.disabled = bool(why)
            if name not in self._texts:  # the user is typing in these
                control.value = form.chosen(name)
        for name, option in SWITCHES.items():
            self._switches[name].tooltip = form.why_not(name) or option.brief
        chosen = form.chosen("activities")
        for word, control in self._activities.items():
            why = form.why_not_activity(word)
            if why:
                reasons[why].append(f"watch {word}")
            control.disabled, control.value = bool(why), word in chosen
        lacking = "".join(
            f'<div class="npuprof-lacking"><b>{escape(", ".join(names))}</b>: {escape(why)}</div>'
            for why, names in reasons.items()
        )
        problem = f'<div class="npuprof-problem" role="alert">{escape(form.problem)}</div>' if form.problem else ""
        reason = f'<div class="npuprof-lacking">auto is {escape(form.collector_reason)}</div>'
        self._reasons.value = problem + (reason if form.collector_reason else "") + lacking
        self._line.value = (
            f'<div class="npuprof-lacking">The same for one cell: <code>{escape(form.magic())}</code></div>'
        )

    def _activity_chooser(self, word: str) -> Callable[[Any], None]:
        def choose(value: Any) -> None:
            form = self._panel.form
            present = set(form.chosen("activities"))
            wanted = present | {word} if value else present - {word}
            if wanted != present:
                self._panel.choose("activities", tuple(name for name in LISTS["activities"] if name in wanted))

        return choose


def _chooser(panel: PanelController, name: str) -> Callable[[Any], None]:
    def choose(value: Any) -> None:
        if value != panel.form.chosen(name):  # not an echo of refresh()
            panel.choose(name, value)

    return choose


def _spoken(name: str) -> str:
    return name.replace("_", " ")


def _row(children: Any, kind: str = "npuprof-row") -> widgets.Box:
    row = widgets.HBox(list(children))
    row.add_class(kind)
    return row
