"""Whose code a frame of a stack is of."""

from __future__ import annotations

import os
import sysconfig
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npuprof
from npuprof.lines import frames
from npuprof.lines.frames import Frame, cell_name, frame_text, in_full
from npuprof.session import session
from tests.budget import examples

_PACKAGE = Path(npuprof.__file__).parent
_STEP = session.Session.step.__code__
_LINE = _STEP.co_firstlineno


@pytest.mark.parametrize(
    "file",
    [
        "/home/me/main.py",
        "main.py",
        "/tmp/ipykernel_7/12.py",
        "<ipython-input-3-ab>",
        "<stdin>",
        "<cell>",
        "/home/me/queue.py",
        "/home/me/multiprocessing/train.py",
        "/home/me/importlib/train.py",
        "/home/me/torch/train.py",
        "/home/me/lib/python3/train.py",
        "/home/me/my-site-packages/train.py",
        "/home/me/npuprof/train.py",
        "/home/me/npuprof/work/session/session.py",
        "npuprof/train.py",
        "C:\\me\\npuprof\\train.py",
    ],
)
def test_files_of_the_user(file: str) -> None:
    frame = Frame(file, 7, "main")
    assert frame.is_users
    assert not frame.is_npuprofs


@pytest.mark.parametrize(
    "file",
    [
        threading.__file__,
        pytest.__file__,
        f"{sysconfig.get_path('stdlib')}/contextlib.py",
        "/usr/lib/python3.10/threading.py",
        "/usr/lib64/python3.9/multiprocessing/process.py",
        "/opt/python/lib/python3.13t/threading.py",
        "/usr/lib/python3/dist-packages/IPython/core/interactiveshell.py",
        "threading.py",
        "asyncio/base_events.py",
        "multiprocessing/process.py",
        "importlib/__init__.py",
        "torch/nn/modules/module.py",
        "site-packages/pandas/core/frame.py",
        "/x/.local/lib/python3.9/site-packages/torch_npu/npu.py",
        "<string>",
        "<built-in>",
        "<frozen runpy>",
    ],
)
def test_files_of_python_and_of_installed_packages(file: str) -> None:
    assert not Frame(file, 7, "main").is_users


@pytest.mark.parametrize(
    ("folder", "line"),
    [
        (f"{_PACKAGE}/", _LINE + 500),  # this package, even where a line of it has changed since
        ("/opt/venv/lib/python3.9/site-packages/npuprof/", _LINE + 500),
        ("C:\\venv\\site-packages\\npuprof\\", _LINE + 500),
        ("/usr/lib/python3/dist-packages/npuprof/", _LINE + 500),
        ("npuprof/", _LINE + 500),  # without the folder of sys.path, of whatever version
        ("/build/npuprof/npuprof/", _LINE),  # a checkout of another machine
        ("/build/my fork/npuprof/", _LINE + 1),
    ],
)
def test_frames_of_npuprof(folder: str, line: int) -> None:
    file = f"{folder}session/session.py".replace("/", "\\" if "\\" in folder else "/")
    frame = Frame(file, line, "step")
    assert frame.is_npuprofs
    assert not frame.is_users


@pytest.mark.parametrize(
    "frame",
    [
        Frame("/home/me/npuprof/session/session.py", _LINE, "train"),
        Frame("/home/me/npuprof/session/session.py", _LINE + 5_000, "step"),
        Frame("/home/me/npuprof/cli.py", 1, "<module>"),
        Frame("/home/me/npuprof/npuprof/demo.py", 5, "main"),
        Frame("npuprof/demo.py", 5, "train"),
        Frame(f"{_PACKAGE.parent}/notebooks/npuprof.py", 5, "train"),
        Frame(f"{_PACKAGE.parent}/npuprof-work/demo.py", 5, "train"),
        Frame("/home/me/npuprof//etc/passwd.py", 1, "<module>"),
        Frame("/home/me/npuprof/../session/session.py", _LINE, "step"),
    ],
    ids=str,
)
def test_users_folder_may_be_called_npuprof(frame: Frame) -> None:
    assert not frame.is_npuprofs
    assert frame.is_users


@given(
    st.sampled_from(sorted(path.relative_to(_PACKAGE).as_posix() for path in _PACKAGE.rglob("*.py"))),
    st.sampled_from(["/home/me/npuprof/", "/home/me/npuprof/npuprof/", "npuprof/"]),
    st.integers(0, 999),
    st.data(),
)
@settings(max_examples=examples(60))
def test_file_of_equal_name_is_the_users(module: str, folder: str, line: int, data: st.DataObject) -> None:
    own = frames._functions(module)
    assert own[0][0] == "<module>"
    assert Frame(f"{folder}{module}", line, "users_function").is_users
    name, first, last = data.draw(st.sampled_from(own))
    frame = Frame(f"{folder}{module}", line, name)
    if folder == "npuprof/":
        assert frame.is_npuprofs
    elif name == "<module>" or not any(named == name and a <= line <= b for named, a, b in own):
        assert frame.is_users
    else:
        assert frame.is_npuprofs
    at_the_line = Frame(f"{folder}{module}", data.draw(st.integers(first, last)), name)
    assert at_the_line.is_users == (name == "<module>" and folder != "npuprof/")


def test_only_files_of_this_package_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def functions(path: str) -> list[tuple[str, int, int]]:
        asked.append(path)
        return []

    monkeypatch.setattr(frames, "_functions", functions)
    for file in ("npuprof//etc/x.py", "npuprof/../x.py", "npuprof/a b.py", f"{os.sep}x{os.sep}npuprof/x.so"):
        assert not Frame(file, 1, "f").is_npuprofs
    assert not asked


def test_a_frame_is_read_from_its_text() -> None:
    assert Frame.parse("/my (old) work/main.py(7): train") == Frame("/my (old) work/main.py", 7, "train")
    for text in ("nn.Module: Linear_0", "<built-in method add>", "main.py(7)", ""):
        assert Frame.parse(text) is None


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("/tmp/ipykernel_7/12.py", "<cell>"),
        ("<ipython-input-3-ab>", "<cell [3]>"),
        ("/home/me/my_ipykernel_7/12.py", ""),
        ("/tmp/ipykernel_7/12.py/x.py", ""),
        ("main.py", ""),
    ],
)
def test_cells_of_kernels_and_terminals_have_a_name(file: str, name: str) -> None:
    assert cell_name(file) == name


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("<cell [12]>(14): <module>", "In [12], line 14"),
        ("<cell [12]>(1): <module>", "In [12]"),
        ("<cell [12]>(3): train", "In [12], line 3: train"),
        ("<cell>(3): train", "the cell, line 3: train"),
        ("<cell [x]>(3): train", "<cell [x]>(3): train"),
        ("main.py(3): train", "main.py(3): train"),
        ("aclnnAdd", "aclnnAdd"),
    ],
)
def test_frames_of_cells_read_as_front_ends_number_them(name: str, text: str) -> None:
    assert frame_text(name) == text


def test_a_name_is_of_the_only_path_that_it_ends() -> None:
    paths = ("/a/model.py", "/a/nets/block.py", "/b/nets/block.py", r"C:\work\train.py")
    assert in_full("/a/model.py", paths) == in_full("model.py", paths) == "/a/model.py"
    assert in_full("train.py", paths) == paths[3]
    assert in_full("nets/block.py", paths) == ""  # of two
    assert in_full("del.py", paths) == in_full("", paths) == in_full("b/model.py", paths) == ""
