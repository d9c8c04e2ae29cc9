"""Text in UTF-8, UTF-16 or GBK is read as what it says, also if it was cut in the middle of a character."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npuprof
from npuprof.sources.files.encodings import GB_18030, UTF_8, ToUtf8, as_text, encoding_of
from tests.budget import examples
from tests.sources.msprof.results import STAMP, SUMMARY_HEAD, kernel
from tests.sources.trace.maker import NPU, TraceMaker

# Characters in use: the first level of GB 2312, 3,755 of them.
_HANZI = [bytes((row, cell)).decode("gb2312", "ignore") for row in range(0xB0, 0xD8) for cell in range(0xA1, 0xFF)]
NAMES = st.lists(
    st.text(st.sampled_from([*filter(None, _HANZI), *"ab_/."]), min_size=2, max_size=8).filter(str.strip),
    min_size=6,
    max_size=12,
)
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "gbk", "gb18030")
_CHINESE = ["矩阵乘法", "向量加法", "层归一化", "注意力机制", "卷积反向传播", "数据搬运"]


def _csv(folder: Path, names: list[str], encoding: str, cut: int = 0) -> Path:
    rows = [kernel(name, 100 + 20 * number, 10, task=number) for number, name in enumerate(names)]
    content = "\n".join([SUMMARY_HEAD, *rows, ""]).encode(encoding)
    path = folder / f"op_summary_{STAMP}.csv"
    path.write_bytes(content[: len(content) - cut])
    return path


def _trace(folder: Path, names: list[str], encoding: str) -> Path:
    maker = TraceMaker()
    maker.process(NPU, "Ascend Hardware", "NPU 0", 13)
    for number, name in enumerate(names):
        maker.slice(NPU, 2, name, 5 + 20 * number, 4, **{"Task Type": "AI_CORE", "Task Id": number, "Stream Id": 2})
    path = folder / "trace_view.json"
    path.write_bytes(json.dumps(maker.events, ensure_ascii=False).encode(encoding))
    return path


@settings(max_examples=examples(40))
@given(NAMES, st.sampled_from(ENCODINGS))
def test_chinese_names_in_a_csv_are_read_in_each_encoding(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], encoding: str
) -> None:
    run = npuprof.load(_csv(tmp_path_factory.mktemp("csv"), names, encoding))
    assert run.kernels["name"].tolist() == [name.strip() for name in names]


@settings(max_examples=examples(40))
@given(NAMES, st.sampled_from(ENCODINGS))
def test_chinese_names_in_a_timeline_are_read_in_each_encoding(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], encoding: str
) -> None:
    run = npuprof.load(_trace(tmp_path_factory.mktemp("trace"), names, encoding))
    assert run.tasks["name"].tolist() == names


@settings(max_examples=examples(60))
@given(NAMES, st.sampled_from(["utf-8", "gbk", "gb18030"]), st.data())
def test_text_cut_within_a_character_keeps_the_rest(names: list[str], encoding: str, data: st.DataObject) -> None:
    text = "".join(names) + "矩阵乘法" * 8
    content = text.encode(encoding)
    cut = data.draw(st.integers(len(content) // 2, len(content)))
    shown, found, _ = as_text(content[:cut])
    assert found == (UTF_8 if encoding == "utf-8" else GB_18030)
    assert text.startswith(shown.rstrip("\ufffd"))


@settings(max_examples=examples(60))
@given(NAMES, st.sampled_from(["utf-8", "gbk"]), st.integers(0, 40), st.integers(1, 64))
def test_text_in_blocks_is_that_of_the_whole(names: list[str], encoding: str, ascii_: int, size: int) -> None:
    text = "a" * ascii_ + "矩阵乘法" * 8 + "".join(names)
    content, convert = text.encode(encoding), ToUtf8()
    first = ascii_ + 24
    blocks = [content[:first], *(content[at : at + size] for at in range(first, len(content), size)), b""]
    assert b"".join(map(convert, blocks)).decode() == text


@pytest.mark.long
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("cut", range(1, 9))
def test_of_a_cut_csv_the_whole_rows_have_their_names(tmp_path: Path, encoding: str, cut: int) -> None:
    run = npuprof.load(_csv(tmp_path, [*_CHINESE, "末"], encoding, cut))
    assert run.kernels["name"].tolist()[: len(_CHINESE)] == _CHINESE


@pytest.mark.parametrize("write", [_csv, _trace])
def test_that_text_is_in_gbk_is_told(tmp_path: Path, write: Callable[[Path, list[str], str], Path]) -> None:
    notes = npuprof.load(write(tmp_path, _CHINESE, "gbk")).notes
    assert notes["message"].str.startswith("its text is not in UTF-8: read as GB18030").sum() == 1


def test_characters_that_cannot_be_decoded_are_counted(tmp_path: Path) -> None:
    path = _csv(tmp_path, _CHINESE, "utf-8")
    path.write_bytes(path.read_bytes().replace("矩阵乘法".encode(), "矩阵乘".encode() + b"\xff"))
    run = npuprof.load(path)
    assert run.kernels["name"].tolist() == ["矩阵乘\ufffd", *_CHINESE[1:]]
    told = run.notes[run.notes["message"].str.startswith("a character cannot be decoded")]
    assert told[["severity", "count"]].to_numpy().tolist() == [["warning", 1]]


@pytest.mark.parametrize("text", ["", "plain", "naïve café", "矩", "\U0001f600"])
def test_what_is_utf_8_is_read_as_that(text: str) -> None:
    assert encoding_of(text.encode()) == UTF_8
