"""The widgets of the panel's options."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from html import escape
from typing import Any

import ipywidgets as widgets

from npuprof.notebook.panel.controller import PanelController
from npuprof.notebook.panel.form import CONTROLS, LISTS, SWITCHES, TYPED

_LABEL = {"description_width": "initial"}
MORE = "other options as for %%npuprof: --host-sys cpu,mem"
"""What is typed in the last field."""


class FormView:
    """Controls that follow the rules of the options.

    Options that no front end has that is installed here are folded away.
    """

    def __init__(self, panel: PanelController, observed: Callable[[Callable[[Any], object]], Any]) -> None:
        self._panel = panel
        self._make_choices(panel)
        self._make_texts(panel)
        self._options = {**self._lists, **self._switches, **self._texts}
        for name, control in self._options.items():
            control.observe(observed(_chooser(panel, name)), "value")
            control.add_class(f"npuprof-option-{name}")
        for word, control in self._activities.items():
            control.observe(observed(self._activity_chooser(word)), "value")
            control.add_class(f"npuprof-option-watch-{word}")
        self._reasons = widgets.HTML()
        self._line = widgets.HTML()
        self._descriptions = widgets.HTML()
        self._fold = widgets.ToggleButton(layout={"width": "auto", "align_self": "flex-start"})
        self._fold.add_class("npuprof-expands")
        self._fold.observe(observed(lambda _: self._place(panel.form.elsewhere)), "value")
        self._rows = [_row([]), _row([], "npuprof-switches")]  # of what front ends here have
        self._folded = _row([], "npuprof-switches")
        self.widget = widgets.VBox(
            [
                self._rows[0],
                _row(self._activities.values(), "npuprof-switches"),
                self._rows[1],
                _row(self._texts.values()),
                self._fold,
                self._folded,
                self._reasons,
                self._line,
                self._descriptions,
            ]
        )
        self.widget.layout.overflow = "visible"
        self._placed: tuple[set[str], bool] | None = None

    def _place(self, elsewhere: set[str]) -> None:
        """Place the controls; options that no front end here has are shown on request."""
        if self._placed == (elsewhere, self._fold.value):
            return
        self._placed = elsewhere, self._fold.value
        for row, controls in zip(self._rows, (self._lists, self._switches), strict=True):
            row.children = [control for name, control in controls.items() if name not in elsewhere]
        folded = [control for name, control in {**self._lists, **self._switches}.items() if name in elsewhere]
        self._fold.description = f"{len(folded)} options that no front end here has ▾"
        self._fold.layout.display = "" if folded else "none"
        self._folded.children = folded if self._fold.value else []

    def _make_choices(self, panel: PanelController) -> None:
        form = panel.form
        self._lists = {
            name: widgets.Dropdown(
                options=[(str(value), value) for value in LISTS[name]],
                value=form.chosen(name),
                description=CONTROLS[name].panel,
                style=_LABEL,
                layout={"width": "auto"},
            )
            for name in LISTS
            if name != "activities"
        }
        self._switches = {
            name: widgets.Checkbox(value=form.chosen(name), description=_spoken(name), indent=False)
            for name in SWITCHES
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
                "more": ("More", MORE),
            }.items()
        }

    def refresh(self) -> None:
        """Show the selected values, and why options are unavailable."""
        form = self._panel.form
        reasons: dict[str, list[str]] = defaultdict(list)
        descriptions = {}
        elsewhere = form.elsewhere
        self._place(elsewhere)
        for name, control in self._options.items():
            why = form.why_not(name)
            if why and name not in elsewhere:
                reasons[why].append(_spoken(name))
            if name not in self._texts or why == TYPED or control.disabled:  # the user is typing in the others
                control.value = _shown(control, form.chosen(name))
            control.disabled = bool(why)
            descriptions[name] = why or (CONTROLS[name].described if name in CONTROLS else MORE)
        chosen = form.chosen("activities")
        for word, control in self._activities.items():
            why = form.why_not_activity(word)
            if why:
                reasons[why].append(f"watch {word}")
            control.disabled, control.value = bool(why), word in chosen
            descriptions[f"watch-{word}"] = why or CONTROLS["activities"].described
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
        # keys.js gives them to the controls, which ipywidgets cannot describe.
        self._descriptions.value = "".join(
            f'<span hidden data-npuprof-describes="npuprof-option-{name}">{escape(text)}</span>'
            for name, text in descriptions.items()
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
        if str(value) != str(panel.form.chosen(name)):  # not an echo of refresh()
            panel.choose(name, value)

    return choose


def _spoken(name: str) -> str:
    return name.replace("_", " ")


def _shown(control: Any, value: Any) -> Any:
    """Return a value as its control shows it: fields hold texts."""
    return str(value) if isinstance(control, widgets.Text) else value


def _row(children: Any, kind: str = "npuprof-row") -> widgets.Box:
    row = widgets.HBox(list(children))
    row.add_class(kind)
    return row
