"""Figures as methods of a run."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from importlib import import_module
from typing import Any

import plotly.graph_objects as go
import pytest
from IPython.utils.capture import capture_output

from npuprof.analysis.chip_limits import ChipLimits
from npuprof.figures.colours import FOREGROUND
from npuprof.figures.embed import saved_bytes
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from tests import factories

_FIGURES: dict[str, dict[str, Any]] = {
    "timeline": {},
    "flamegraph": {"weight": "device"},
    "plot_memory": {},
    "plot_communication_matrix": {},
    "plot_communication": {},
    "plot_steps": {},
    "plot_counters": {},
    "plot_roofline": {},
    "plot_kernel": {"row": 0},
}


_DRAWN_BY = {
    "timeline": "timeline.figure.timeline",
    "flamegraph": "flame.figure.flamegraph",
    "plot_memory": "figures.memory.plot_memory",
    "plot_communication_matrix": "figures.communication.plot_traffic",
    "plot_communication": "figures.communication.plot_collectives",
    "plot_steps": "figures.steps.plot_step_parts",
    "plot_counters": "figures.counters.plot_counters",
    "plot_roofline": "figures.roofline.plot_roofline",
    "plot_kernel": "figures.kernel_detail.plot_kernel",
}
_OF_THE_RUN = {"self", "tables", "info", "parts", "traffic", "times", "packets", "pictures", "finding"}


def profile(launches: int) -> Profile:
    made = factories.profile(launches) if launches else factories.all_tables()
    return Profile(Decoded(made, factories.info(), Notes()))


def test_every_plot_of_a_run_is_tried_here() -> None:
    plots = {name for name in dir(Profile) if name.startswith("plot_")}
    assert _FIGURES.keys() == _DRAWN_BY.keys() == plots | {"timeline", "flamegraph"}, (
        "each plot stands in _FIGURES, with what it must be given, and in _DRAWN_BY, with the function that draws it"
    )


@pytest.mark.slow
@pytest.mark.usefixtures("shell")
@pytest.mark.parametrize("launches", [0, 50, 5_000])
@pytest.mark.parametrize("name", _FIGURES)
def test_figures_are_small_and_shown_once(name: str, launches: int) -> None:
    if name == "plot_kernel" and not launches:
        pytest.skip("a run without kernels has none to show")
    with capture_output() as captured:
        figure = getattr(profile(launches), name)(**_FIGURES[name])
    assert isinstance(figure, go.Figure)
    assert (captured.stdout, captured.stderr, captured.outputs) == ("", "", [])
    assert saved_bytes(figure) < 1_000_000
    assert "simulated NPU" in figure.layout.title.text
    if not figure.data:
        assert figure.layout.annotations[0].text


@pytest.mark.slow
@pytest.mark.parametrize("name", _FIGURES)
def test_each_suits_light_and_dark_themes_and_offers_no_upload(name: str) -> None:
    layout = getattr(profile(50), name)(**_FIGURES[name]).layout
    assert layout.paper_bgcolor == layout.plot_bgcolor == "rgba(0,0,0,0)"
    assert layout.font.color == FOREGROUND
    assert {"sendDataToCloud", "sendChartToCloud"} <= set(layout.modebar.remove)
    assert layout.template.layout.plot_bgcolor is None  # plotly's own has a white background


def parameters(drawing: Callable[..., Any]) -> dict[str, Any]:
    """Return what a caller chooses: for each parameter its kind, default and resolved type."""
    hints = typing.get_type_hints(inspect.unwrap(drawing), localns={"ChipLimits": ChipLimits, "go": go})
    return {
        name: (one.kind, one.default, hints[name])
        for name, one in inspect.signature(drawing).parameters.items()
        if name not in _OF_THE_RUN
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", _FIGURES)
def test_drawing_methods_hand_parameters_on(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module_name, _, function = _DRAWN_BY[name].rpartition(".")
    method, module = getattr(Profile, name), import_module(f"npuprof.{module_name}")
    chosen = parameters(method)
    assert chosen == parameters(getattr(module, function)) != {}
    assert all(parameter in method.__doc__ for parameter in chosen)
    given: dict[str, Any] = {}

    def draw(*arguments: Any, **options: Any) -> go.Figure:
        given.update(options, **({"row": arguments[2]} if "row" in chosen else {}))
        return go.Figure()

    monkeypatch.setattr(module, function, draw)
    wanted = {parameter: object() for parameter in chosen}
    monkeypatch.setattr("npuprof.parameters._check", lambda *_: None)
    getattr(profile(0), name)(**wanted)
    assert {name: value for name, value in given.items() if name not in _OF_THE_RUN} == wanted
