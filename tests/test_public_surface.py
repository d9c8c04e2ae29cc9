"""What users reach: every parameter shows its type and default, and the guides' own lines are well typed."""

from __future__ import annotations

import builtins
import inspect
import json
import pydoc
import re
from collections.abc import Callable, Iterator
from enum import Enum
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import npuprof
from npuprof.advice.finding import Finding
from npuprof.advice.findings import Advice
from npuprof.options import Options
from npuprof.ranks.overview import Overview
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from npuprof.tables.schema import SCHEMA
from tests import factories

_ROOT = Path(__file__).parent.parent
_GUIDES = {
    "README.md": "guide_readme",
    **{
        path.relative_to(_ROOT).as_posix(): f"guide_{path.stem}"
        for path in sorted((_ROOT / "notebooks").rglob("*.ipynb"))
    },
    **{
        f"notebooks/reference/{path.name}": f"page_{path.stem}"
        for path in sorted((_ROOT / "notebooks/reference").glob("*.md"))
    },
}
_HIDES = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
# The keys of the vendors' file differ by its dialect; a table has as many keys as its reader wants, each a Literal.
_OPEN = {"edit", "Profile.by", "ProfileSet.by"}
# What only a single run has, and where a set has it instead.
_OF_ONE_RUN = {
    "accounting": "breakdown(), by rank",
    "aligned": "of one host: runs[rank].aligned; clocks() has the offsets between ranks",
    "code": "of one program: runs[rank].code()",
    "ledger": "of one result's files: runs[rank].ledger",
    "annotate": "of one run: runs[rank].annotate(...)",
    "annotations": "of one run: runs[rank].annotations",
    "replayed": "of one run: runs[rank].replayed(...)",
    "select": "of one run: runs[rank].select(...)",
    "selection": "of one run: runs[rank].selection",
    "plot_kernel": "of one kernel: runs[rank].plot_kernel(row)",
    "statistics": "of one result: runs[rank].statistics",
    "summary": "overview()",
    "with_detected_steps": "of one run's kernels: runs[rank].with_detected_steps()",
}
_PARAMETERS_OF_ONE_RUN = {
    "explore": {
        "beside": "a set has all its ranks above each other",
        "saved_bytes": "a notebook holds single runs: runs[rank].explore()",
        "tracks": "of one run: runs[rank].explore(tracks=...)",
    },
    "flamegraph": {"step": "steps of ranks are not at the same time", "thread": "ranks have no thread in common"},
    "to_html": {"beside": "a set has all its ranks above each other"},
    "what_if": {"cause": "rank and balance change a job", "part": "rank and balance change a job"},
}
_OLD_NAMES = re.compile(r"_plot$|^export_|^(roofline|kernel_detail|communication_matrix)$")
# What the examples take from the user's own code.
_GIVEN = {
    "README.md": "from typing import Any\nimport npuprof\ndata: list[Any] = []\ndef train(batch: Any) -> None: ...\n"
    "before = npuprof.load_set('a')[0]\n",
    "notebooks/reference/cluster.md": "import npuprof\n",
    "notebooks/reference/compare.md": "import npuprof\nrun = before = npuprof.load_set('a')[0]\nrow = 0\n",
    "notebooks/reference/vendors.md": "from typing import Any\nimport npuprof\n"
    + "".join(f"{name}: Any\n" for name in ("acl", "data", "inputs", "model", "model_id", "outputs", "tf", "train_op")),
}
# Functions of notebooks and pages have no annotations, and torch or Dask need not be installed.
_UNTYPED = {
    *(
        "guide_compare",
        "guide_explorer_tour",
        "guide_quickstart",
        "guide_ranks",
        "guide_torch_simulated",
        "guide_two_ranks",
    ),
    *("guide_readme", "page_cluster", "page_compare"),
    *(module for path, module in _GUIDES.items() if "/guides/" in path),
}
_OF_SETS = {"guide_many_processes", "guide_ranks"}  # where last() is a set, as an option of the cell says
_LAX = f"""
[[tool.mypy.overrides]]
module = ["torch.*"]
follow_imports = "skip"

[[tool.mypy.overrides]]
module = ["npuprof.*"]  # whose own lines are checked with one version of NumPy's and pandas' stubs, not with any
follow_imports = "silent"

[[tool.mypy.overrides]]
module = {json.dumps(sorted(_UNTYPED - _OF_SETS))}
check_untyped_defs = true
disallow_incomplete_defs = false
disallow_subclassing_any = false
disallow_untyped_calls = false
disallow_untyped_defs = false
disable_error_code = ["import-not-found", "no-redef", "var-annotated"]

[[tool.mypy.overrides]]
module = {json.dumps(sorted(_OF_SETS))}
check_untyped_defs = true
disallow_incomplete_defs = false
disallow_untyped_calls = false
disallow_untyped_defs = false
disable_error_code = ["import-not-found", "index", "no-redef", "union-attr", "var-annotated"]
"""


def _names(module: ModuleType) -> list[str]:
    given = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
    named: list[str] = getattr(module, "__all__", None) or [name for name in given if not name.startswith("_")]
    return [name for name in named if callable(getattr(module, name))]


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield every public function and method by name."""
    modules = (npuprof, npuprof.callbacks, npuprof.dynamic, import_module("npuprof.simulator"))
    for name, public in ((name, getattr(module, name)) for module in modules for name in _names(module)):
        if not isinstance(public, type):
            yield name, public
        elif not issubclass(public, (Exception, Enum)):
            yield name, public
            for of_class, method in inspect.getmembers(public, inspect.isfunction):
                if not of_class.startswith("_") and method.__module__.startswith("npuprof"):
                    yield f"{name}.{of_class}", method


def test_every_parameter_shows_its_name_and_type() -> None:
    hidden = [
        f"{name}: {parameter}"
        for name, function in functions()
        if name not in _OPEN
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name != "self" and (parameter.annotation is inspect.Parameter.empty or parameter.kind in _HIDES)
    ]
    assert hidden == []


def test_profile_shows_every_option_with_its_default() -> None:
    shown = inspect.signature(npuprof.profile).parameters
    for name, option in inspect.signature(Options).parameters.items():
        assert shown[name].default == option.default
        assert shown[name].kind is inspect.Parameter.KEYWORD_ONLY
    assert npuprof.profile(level=2, stacks=True).options == Options(level=2, stacks=True)


def test_one_convention_names_figures_and_exports() -> None:
    for public in (npuprof.Profile, npuprof.ProfileSet):
        assert not [name for name in dir(public) if _OLD_NAMES.search(name)]
    figures = {name for name in dir(npuprof.Profile) if name.startswith("plot_")}
    assert figures >= {"plot_steps", "plot_memory", "plot_counters", "plot_roofline", "plot_kernel"}
    exports = {name for name in dir(npuprof.Profile) if name.startswith("to_")}
    assert exports == {
        *("to_html", "to_chrome_trace", "to_speedscope", "to_folded_stacks", "to_memory_timeline"),
        "to_perfetto",
        *("to_csv", "to_xlsx"),
        "to_markdown",
    }


def test_a_set_has_what_a_run_has() -> None:
    run, job = (
        {name: getattr(public, name) for name in dir(public) if not name.startswith("_")}
        for public in (npuprof.Profile, npuprof.ProfileSet)
    )
    assert run.keys() - job.keys() == _OF_ONE_RUN.keys(), (
        "a method of a run is one of ProfileSet too, or stands in _OF_ONE_RUN with what is called instead"
    )
    lacks = {
        name: missing
        for name in run.keys() & job.keys()
        if inspect.isfunction(run[name])
        and (missing := set(inspect.signature(run[name]).parameters) - set(inspect.signature(job[name]).parameters))
    }
    assert lacks == {name: set(reasons) for name, reasons in _PARAMETERS_OF_ONE_RUN.items()}, (
        "a parameter of a run's method is one of ProfileSet's too, or stands in _PARAMETERS_OF_ONE_RUN with a reason"
    )
    assert [
        name for name in run.keys() & job.keys() if inspect.isfunction(run[name]) != inspect.isfunction(job[name])
    ] == []


def test_loops_go_on_after_a_star_import() -> None:
    assert set(npuprof.__all__) & set(dir(builtins)) == {"range"}
    scope: dict[str, Any] = {}
    exec("from npuprof import *\ncounts = [*range(3), *range(8, 2, -3), *range(True)]", scope)
    assert scope["counts"] == [0, 1, 2, 8, 5, 0]
    assert scope["range"] is npuprof.range
    with npuprof.range("forward", "mine"):
        pass


@pytest.mark.slow
def test_a_set_is_opened_of_several_runs_and_of_one(tmp_path: Path) -> None:
    run = npuprof.Profile(Decoded(factories.profile(20), factories.info(), Notes()))
    run.save(tmp_path / "job" / "one")
    (single,) = npuprof.load_set(tmp_path / "job")
    assert len(single.kernels) == len(npuprof.load(tmp_path / "job").kernels) == len(run.kernels)
    run.save(tmp_path / "job" / "two")
    for several in (npuprof.load_set(tmp_path / "job"), npuprof.load(tmp_path / "job")):
        assert isinstance(several, npuprof.ProfileSet)
        assert [len(each.kernels) for each in several] == [len(run.kernels)] * 2
    with pytest.raises(npuprof.NpuprofError, match=r"source of load_set\(\) must be one of"):
        npuprof.load_set(tmp_path, source="xml")  # type: ignore[arg-type]


def python_of(guide: str) -> str:
    """Return a guide's lines of Python, those of IPython as comments."""
    text = (_ROOT / guide).read_text(encoding="utf-8")
    if guide.endswith(".md"):
        cells = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    else:
        cells = ["".join(cell["source"]) + "\n" for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    cells = [cell for cell in cells if not cell.startswith("%%sh")]
    return _GIVEN.get(guide, "") + re.sub("^([%!])", r"# \1", "".join(cells), flags=re.MULTILINE)


@pytest.mark.long
def test_the_lines_of_the_guides_are_well_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check = pytest.importorskip("mypy.api").run
    monkeypatch.chdir(_ROOT)  # where the types of the package are cached
    for guide, module in _GUIDES.items():
        (tmp_path / f"{module}.py").write_text(python_of(guide), encoding="utf-8")
    settings = tmp_path / "pyproject.toml"
    settings.write_text((_ROOT / "pyproject.toml").read_text(encoding="utf-8") + _LAX, encoding="utf-8")
    told, problems, status = check(["--strict", "--config-file", str(settings), *map(str, tmp_path.glob("*.py"))])
    assert status == 0, told + problems


def test_completion_after_the_package_offers_public_names_alone() -> None:
    offered = {name for name in dir(npuprof) if not name.startswith("__")}
    assert offered >= {*npuprof.__all__}
    assert not offered & {"os", "Any", "TYPE_CHECKING", "annotations", "import_module", "interactive"}
    assert all(getattr(npuprof, name) is not None for name in offered)


def test_help_begins_with_the_common_calls() -> None:
    printed = pydoc.plain(pydoc.render_doc(npuprof)).splitlines()
    assert max(map(len, (npuprof.__doc__ or "").splitlines())) <= 84  # as wide as an output beside the file browser
    text = "\n".join(printed[:40])
    assert all(f"npuprof.{name}" in text for name in ("panel()", "profile(", "load(", "load_set(", "compare("))
    assert "Parameters" in pydoc.render_doc(npuprof.load)


def test_docstrings_of_what_is_public_name_nothing_internal() -> None:
    named = re.compile(r":\w+:`~?npuprof\.([\w.]+)`|(?<!:)``npuprof\.([\w.]+)``")
    public = {*npuprof.__all__, "callbacks", "dynamic", "tensorflow", "simulator"}
    wrong = {
        f"{name}: {match.group()}"
        for name, documented in _public_docstrings()
        for match in named.finditer(documented)
        if (match[1] or match[2]).partition(".")[0] not in public
    }
    assert wrong == set(), "say it there, or name what users reach"


def _public_docstrings() -> Iterator[tuple[str, str]]:
    values = [*(getattr(npuprof, name) for name in npuprof.__all__), Advice, Finding, Overview]
    for value in values:
        yield value.__name__, inspect.getdoc(value) or ""
        for name in dir(value) if inspect.isclass(value) else ():
            if not name.startswith("_"):
                member = inspect.getattr_static(value, name)
                yield f"{value.__name__}.{name}", inspect.getdoc(getattr(member, "__func__", member)) or ""


@pytest.mark.parametrize("of", [npuprof.Profile, npuprof.ProfileSet])
def test_every_table_is_an_attribute(of: type) -> None:
    assert {*SCHEMA} <= {*dir(of)}
    assert all("explain" in (getattr(of, name).__doc__ or "") for name in SCHEMA)
