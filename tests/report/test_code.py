"""The annotated code: its table, its HTML and its text, of cells and files."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import npuprof
from npuprof import tables
from npuprof.errors import OptionsError
from npuprof.profiles.profile import Profile
from npuprof.report.code import AnnotatedCode, annotate
from npuprof.report.code_texts import CodeTexts
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from tests import factories
from tests.analysis.test_code_lines import cell
from tests.analysis.test_launches import training
from tests.report.elements import HOSTILE, Elements

_CELL_TEXT = "%%npuprof\nx = data()\ny = f(x)\ntime.sleep(1)\nz = model(y)\n"
_MODEL_TEXT = "import torch\n\n\nclass Model:\n    def forward(self, x):\n        y = 2 * x\n        return npu(y)\n"
_COSTS = ["device_ns", "idle_ns", "host_ns", "launches", "peak_bytes"]


def profile(run: dict[str, pd.DataFrame], **info: Any) -> Profile:
    return Profile(Decoded(run, factories.info(simulated=False, **info), Notes()))


def recorded() -> Profile:
    return profile(cell(), code={"<cell [3]>": _CELL_TEXT, "/home/me/model.py": _MODEL_TEXT})


def test_table_has_cell_then_files_then_no_line() -> None:
    run = recorded()
    frame = run.code().to_frame()
    assert frame.columns.tolist() == ["file", "line", "text", *_COSTS]
    assert frame["line"].tolist()[:-1] == [1, 2, 3, 4, 5, 7]
    assert frame["text"].tolist()[:-1] == [*_CELL_TEXT.splitlines(), "        return npu(y)"]
    assert frame[["file", "line", "text"]].iloc[-1].isna().all()
    assert frame["device_ns"].tolist() == [0, 0, 50, 0, 0, 80, 0]
    assert frame["idle_ns"].tolist()[2:6] == [40, 400, 30, 70]
    assert int(frame["device_ns"].sum()) == int(run.kernels["duration_ns"].sum())
    assert int(frame["launches"].sum()) == len(run.kernels)


def test_text_has_lines_sums_and_definition() -> None:
    text = str(recorded().code())
    lines = text.splitlines()
    assert lines[0] == "Your code"
    assert lines[1].startswith("130 ns of device time, ")
    assert any(line.endswith("  time.sleep(1)") and "400 ns 400 ns" in line and "░" in line for line in lines)
    assert any(line.endswith("5      def forward(self, x):") for line in lines)
    assert "import torch" not in text


def test_html_can_be_read_without_style() -> None:
    fragment = recorded().code()._repr_html_()
    elements = Elements(fragment)
    assert not {"script", "link", "iframe", "svg"} & set(elements.tags)
    assert {name for name, _ in elements.attributes} <= {"class", "style", "title"}
    assert elements.open == []
    bare = re.sub(r"<[^>]*>", "", re.sub(r"<pre[^>]*>", "\n", fragment))
    line = next(line for line in bare.splitlines() if line.endswith("time.sleep(1)"))
    assert re.fullmatch(r"\s*400 ns\s+400 ns\s+1\s+4  time\.sleep\(1\)", line)


def test_says_what_no_line_launched() -> None:
    run = cell()
    alone = run["kernels"].iloc[:1].assign(connection_id=pd.array([pd.NA], "Int64"), start_ns=10_000)
    run["kernels"] = pd.concat([run["kernels"], alone], ignore_index=True)
    said = " ".join(str(profile(run, code={"<cell [3]>": _CELL_TEXT}).code()).split())
    assert "Of it on no line: device time 50 ns" in said


def test_a_hostile_text_is_shown_as_text() -> None:
    run = profile(cell(), code={"<cell [3]>": f"{HOSTILE}\n" * 5, f"/home/me/{HOSTILE}/model.py": HOSTILE * 99})
    elements = Elements(run.code()._repr_html_())
    assert not {"script", "img"} & set(elements.tags)
    assert elements.text.count(HOSTILE) >= 5
    assert "\x1b" not in str(profile(cell(), code={"<cell [3]>": "\x1b[31m\n" * 5}).code())


def test_long_code_stays_within_bounds() -> None:
    run = profile(cell(), code={"<cell [3]>": "\n".join(['"' * 5_000] * 3_000)})
    code = run.code()
    assert len(code._repr_html_()) < 100_000
    assert len(str(code).splitlines()) < 500
    assert len(code.to_frame()) > 3_000


def test_without_a_device_the_headline_says_so() -> None:
    run = training() | {name: tables.empty(name) for name in ("kernels", "links")}
    code = profile(run).code()
    assert code.headline() == "no device was recorded: 1.28 µs of host time, 4 operators in the whole run"
    frame = code.to_frame()
    assert frame[["device_ns", "idle_ns", "launches"]].isna().all(axis=None)
    assert frame["operators"].tolist() == [2, 2]
    assert "operators" in str(code)


def test_a_run_without_lines_says_what_to_record() -> None:
    run = profile(factories.all_tables())
    assert "knows no line" in str(run.code())
    assert run.code().to_frame()["line"].isna().all()
    assert "In all" not in str(run)


def test_lines_of_a_finding_are_marked_with_its_number() -> None:
    run = recorded()
    code = run.code()
    line = next(line for line in str(code).splitlines() if line.endswith("time.sleep(1)"))
    number = int(line[: line.index("time")].split()[-2].split(",")[0])
    assert (run.advice()[number].rule, run.advice()[number].cause) == ("host_bound", "sleep")
    assert f"{number}  {run.advice()[number].title}" in str(code)


def test_report_and_page_show_code(tmp_path: Path) -> None:
    run = recorded()
    assert "time.sleep(1)" in str(run)
    assert "time.sleep(1)" in run._repr_html_()
    assert "time.sleep(1)" in run.to_html(tmp_path / "page.html").read_text()


def test_the_text_is_in_a_saved_profile(tmp_path: Path) -> None:
    saved = npuprof.load(recorded().save(tmp_path / "saved"))
    assert "time.sleep(1)" in str(saved.code())
    assert "sleep" not in str(saved.info)


def _with_root(root: Path, run: dict[str, pd.DataFrame] | None = None, **info: Any) -> AnnotatedCode:
    return annotate(profile(cell() if run is None else run, **info).advice(), root)


def test_files_are_found_below_a_root(tmp_path: Path) -> None:
    (tmp_path / "me").mkdir()
    (tmp_path / "me" / "model.py").write_text(_MODEL_TEXT)
    os.utime(tmp_path / "me" / "model.py", ns=(1, 1))
    (tmp_path / "model.py").write_text("another")
    code = _with_root(tmp_path)
    assert code.to_frame()["text"].tolist()[-2] == "        return npu(y)"
    assert not any("changed" in note for note in code.notes)


def test_a_newer_or_shorter_file_is_a_note(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("x = 1\n")
    (newer, shorter, *_) = _with_root(tmp_path, started_ns=5).notes
    assert newer == f"{tmp_path / 'model.py'} was changed after the run began: its lines may have moved"
    assert shorter == "/home/me/model.py: has fewer lines than the run names, so it is not what ran"


def test_nothing_outside_of_the_root_is_read(tmp_path: Path) -> None:
    (tmp_path / "secret.py").write_text("key = 1\n" * 9)
    root = tmp_path / "root"
    root.mkdir()
    (root / "link.py").symlink_to(tmp_path / "secret.py")
    texts = CodeTexts({}, root)
    for file in ("../secret.py", f"{tmp_path}/secret.py", "link.py", "/etc/passwd"):
        assert texts.lines(file) == []


def test_a_file_without_text_is_named(tmp_path: Path) -> None:
    (note,) = _with_root(tmp_path, code={"<cell [3]>": _CELL_TEXT}).notes
    assert note.startswith("the run does not have the text of /home/me/model.py: npuprof.load(path, code_root=...)")


def test_a_root_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    saved = recorded().save(tmp_path / "saved")
    with pytest.raises(OptionsError, match="is no folder"):
        npuprof.load(saved, code_root=tmp_path / "absent")


@pytest.mark.slow
def test_a_real_result_names_its_files(samples: Path, tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text("\n".join(f"line_{number}" for number in range(1, 500)))
    run = npuprof.load(samples / "torch_npu" / "text" / "level1" / "rank0_ascend_pt", code_root=tmp_path)
    frame = run.code().to_frame()
    known = frame[(frame["file"].astype(str).str.endswith("main.py")).to_numpy(bool)]
    assert (known["text"] == "line_" + known["line"].astype(str)).all()
    assert len(known) > 5
    assert int(frame["device_ns"].sum()) == int(run.kernels["duration_ns"].sum())
    assert not frame["file"].dropna().str.contains("site-packages").any()
    assert any("changed after the run began" in note for note in run.code().notes)
    assert np.count_nonzero(frame["line"].isna()) == 1


def _with_stacks(*frames: str) -> Profile:
    run = cell()
    stacks = [f"{frame}\n<cell [3]>(5): <module>" for frame in frames]
    run["api"] = run["api"].assign(stack=tables.categorical(np.array([0, 1]), stacks))
    return profile(run, code={"<cell [3]>": _CELL_TEXT, "/home/me/model.py": _MODEL_TEXT})


def test_stacks_name_the_recorded_file() -> None:
    frame = _with_stacks("/home/me/model.py(6): forward", "model.py(7): forward").code().to_frame()
    assert frame["file"].dropna().unique().tolist() == ["<cell [3]>", "/home/me/model.py"]
    assert frame["line"].tolist()[:-1] == [1, 2, 3, 4, 5, 6, 7]


def test_it_says_that_stacks_name_functions_by_their_first_line() -> None:
    told = "the time of a function may stand at its first line"
    assert told in _with_stacks("model.py(5): forward", "model.py(7): forward").code().text()
    assert told not in recorded().code().text()
