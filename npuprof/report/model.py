"""A report as data: its parts in reading order, before they become HTML or text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from npuprof.words.quantities import ABSENT

Markup: TypeAlias = str
"""Text in which code stands in backticks. Text from a recording has none of its own: see :func:`code`."""

Look: TypeAlias = str
"""What a mark stands for, a key of :data:`npuprof.report.pictures.LOOKS`, which has its colour."""


@dataclass(frozen=True)
class Warned:
    """A reason to distrust the figures below it, and rows of an amount and what has it."""

    severity: Literal["error", "warning"]
    text: Markup
    rows: Sequence[tuple[str, Markup]] = ()


@dataclass(frozen=True)
class Part:
    """A part of the bar: its name, time and look."""

    label: str
    time_ns: int
    look: Look


@dataclass(frozen=True)
class Segment:
    """A piece of a lane, in nanoseconds since the start of the picture; `label` is drawn where it fits."""

    start_ns: int
    end_ns: int
    look: Look
    label: str = ""


@dataclass(frozen=True)
class Lane:
    """A row of a strip."""

    label: str
    segments: Sequence[Segment]
    is_marked: bool = False


@dataclass(frozen=True)
class Strip:
    """A window of time: the host's lines and the devices' work. In text it stands only if `in_text`."""

    title: str
    length_ns: int
    lanes: Sequence[Lane]
    in_text: bool = False


@dataclass(frozen=True)
class Steps:
    """The time of each step, in order, and which of them are outliers."""

    times_ns: Sequence[int]
    is_outlier: Sequence[bool]


@dataclass(frozen=True)
class Problem:
    """A finding: the problem, one action and its gain; a click shows detail and evidence."""

    title: Markup
    action: Markup
    gain: str
    share: str
    why: Sequence[Markup]
    detail: Markup = ""


@dataclass(frozen=True)
class CodeLine:
    """A line of code with its times; `number` is None where lines are left out, `row` is the target of a click."""

    number: int | None
    text: str = ""
    marks: Sequence[int] = ()
    device_ns: int = 0
    idle_ns: int = 0
    others: Sequence[str] = ()
    row: int | None = None


@dataclass(frozen=True)
class Code:
    """Lines of a file or cell. `columns` are the names of both times, `others` of the figures that unfold.

    `cell` is the name of the cell, as people read it, so that its lines are links; empty for a file.
    """

    title: str
    columns: tuple[str, str]
    per: str
    lines: Sequence[CodeLine]
    others: Sequence[str] = ()
    cell: str = ""


@dataclass(frozen=True)
class Bar:
    """A row of a waterfall: a bar between two times, and the figure beside it."""

    label: Markup
    figure: str
    start_ns: int
    end_ns: int
    look: Look
    is_whole: bool = False


@dataclass(frozen=True)
class ChangedLine:
    """A line of code before (`-`) or after (`+`) a change, and its time per step."""

    sign: Literal["-", "+"]
    number: int
    text: str
    time_ns: int


@dataclass(frozen=True)
class Changes:
    """Changed lines of code in order; `more` says which are left out."""

    per: str
    lines: Sequence[ChangedLine]
    more: str = ""


@dataclass(frozen=True)
class Table:
    """A small table of texts; its last `numeric` columns are numbers."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", [tuple(cell or ABSENT for cell in row) for row in self.rows])


@dataclass(frozen=True)
class Fold:
    """A part that unfolds: its contents in order. A drawing is a description and an SVG; HTML stands as it is."""

    title: str
    texts: Sequence[Markup] = ()
    figures: Sequence[tuple[str, str]] = ()
    tables: Sequence[Table] = ()
    codes: Sequence[Code] = ()
    drawings: Sequence[tuple[str, str]] = ()
    reports: Sequence[Report] = ()
    html: str = ""


@dataclass(frozen=True)
class Report:
    """The content of a report on a run, a set or a comparison, from top to bottom."""

    # name, origin: who it is about, and on what: chip, number and kind of steps.
    name: str
    # headline, aside: the time of a step, and a few words beside it.
    headline: str
    origin: Sequence[str] = ()
    is_simulated: bool = False  # whether the figures are of a simulated device
    warnings: Sequence[Warned] = ()
    aside: str = ""
    aside_title: str = ""
    # verdict, sentence: the outcome of a comparison, and the main cause with its line.
    verdict: str = ""
    sentence: Markup = ""
    # parts, steps, strips, problems, codes, waterfall, changes, tables, folds: bar, bars of the steps, typical step,
    # findings, code, bars and lines of a comparison, what is listed, and what is folded.
    parts: Sequence[Part] = ()
    parts_note: str = ""
    steps: Steps | None = None
    strips: Sequence[Strip] = ()
    problems: Sequence[Problem] = ()
    codes: Sequence[Code] = ()
    waterfall: Sequence[Bar] = ()
    changes: Changes | None = None
    tables: Sequence[Table] = ()
    since: Markup = ""  # what changed since the run before, above what is folded
    details: Sequence[Fold] = ()
    folds: Sequence[Fold] = ()
    unknown: str = ""  # what could not be checked, in a few words
    noted: str = ""  # the number of warnings about the data, for text, which has no fold of notes
    kept: Markup = ""  # where recordings are kept, below all else; said once in a notebook
    script: str = ""  # an element with the script of a fold, outside of all folds
    cells: Sequence[str] = field(default=())  # classes that name the cells of the notebook, so that their links work

    @property
    def is_brief(self) -> bool:
        """Whether there is a sentence and nothing else: no parts, findings, code or warnings."""
        return not (self.parts or self.problems or self.codes or self.warnings or self.folds or self.tables)


def code(text: str) -> Markup:
    """Return recorded text as code: between backticks, with its own backticks as apostrophes."""
    return f"`{text.replace('`', chr(39))}`" if text else ""


def plain(text: str) -> Markup:
    """Return recorded text for running text: without backticks."""
    return text.replace("`", "'")
