"""In a real kernel: whatever is wrong, there is one clear message, nothing is lost, and the next cell works."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.notebook.kernel import Executed, Kernel

pytestmark = [pytest.mark.kernel, pytest.mark.slow]


@pytest.fixture(autouse=True)
def _the_next_cell_works(kernel: Kernel) -> Iterator[None]:
    yield
    executed = kernel.run("%%npuprof --no-report --activities npu\n42")
    assert (executed.kinds, executed.value) == (["execute_result"], "42")


def assert_refused(kernel: Kernel, executed: Executed, ename: str, *words: str) -> None:
    said = executed.reply["evalue"] + executed.stream("stderr")
    assert executed.reply["ename"] == ename
    assert all(word in said for word in words), said
    assert executed.stream("stdout") == ""
    assert "nothing is collecting" in kernel.run("%npuprof status").stream()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--level 7", ["level", "none, 0, 1, 2"]),
        ("--aic-metrics Pipes", ["PipeUtilization", "MemoryAccess"]),
        ("--activities tpu", ["cpu, npu, gpu"]),
        ("--host-sys ram", ["cpu, mem, disk, network, osrt, numa"]),
        ("--collector cuda", ["auto, acl, torch_npu", "simulator"]),
        ("--if-unavailable maybe", ["error", "run"]),
        ("--level", ["expected one argument"]),
        ("--depth 3", ["--depth", "--level", "--memory"]),
        ("stray", ["stray", "--level"]),
        ("--name 'open", ["No closing quotation"]),
        ("--level 0 --aic-metrics Memory", ["needs level 1 or 2"]),
        ("--level 0 --shapes", ["set level 1 or 2"]),
    ],
)
def test_a_bad_option_is_a_usage_error_before_any_code_runs(kernel: Kernel, arguments: str, words: list[str]) -> None:
    executed = kernel.run(f"%%npuprof {arguments}\nprint('ran')")
    assert_refused(kernel, executed, "UsageError", *words)
    assert not executed.contents("error"), "a usage error has no traceback"


def test_an_empty_cell_is_a_usage_error(kernel: Kernel) -> None:
    assert_refused(kernel, kernel.run("%%npuprof"), "UsageError", "cell body is empty")
    assert_refused(kernel, kernel.run("%%npuprof\n\n  \n"), "UsageError", "there are none")


@pytest.fixture
def refusing(kernel: Kernel, request: pytest.FixtureRequest) -> Iterator[int]:
    """A front end whose start returns an error code."""
    kernel.run(
        "from npuprof.simulator import acl as _acl\n_start = _acl.prof.start\n"
        f"_acl.prof.start = lambda config: {request.param}"
    )
    yield request.param
    kernel.run("_acl.prof.start = _start")


@pytest.mark.parametrize("refusing", [100042, 200006], indirect=True)
def test_refusing_front_end_stops_the_cell(kernel: Kernel, refusing: int) -> None:
    executed = kernel.run("%%npuprof --output refused\nprint('ran')")
    assert_refused(kernel, executed, "CollectorError", str(refusing), "start")
    assert len(executed.contents("error")[0]["traceback"]) == 1
    assert kernel.evaluate("__import__('pathlib').Path('refused').exists()") == "False"


@pytest.mark.parametrize("refusing", [100042], indirect=True)
def test_if_unavailable_runs_the_cell_unprofiled(kernel: Kernel, refusing: int) -> None:
    executed = kernel.run("%%npuprof --if-unavailable run\nprint('ran')\n42")
    assert executed.status == "ok"
    assert executed.stream() == "ran\n"
    assert executed.value == "42"
    assert "runs unprofiled" in executed.stream("stderr")
    assert str(refusing) in executed.stream("stderr")
    assert not executed.displays


def test_an_absent_front_end_is_an_error_or_an_unprofiled_run(kernel: Kernel) -> None:
    executed = kernel.run("%%npuprof --collector acl\nprint('ran')")
    assert_refused(kernel, executed, "FrontEndAbsentError", "--collector simulator")
    executed = kernel.run("%%npuprof --collector acl --if-unavailable run\n42")
    assert executed.value == "42"
    assert "runs unprofiled" in executed.stream("stderr")


def test_a_directory_that_cannot_be_written_is_an_error(kernel: Kernel) -> None:
    executed = kernel.run("%%npuprof --output /proc/nowhere\nprint('ran')")
    assert_refused(kernel, executed, "CollectorError", "/proc/nowhere", "--output")


_FULL = "_resource.setrlimit(_resource.RLIMIT_FSIZE, (0, _resource.RLIM_INFINITY))"


@pytest.fixture
def disk(kernel: Kernel) -> Iterator[None]:
    """Undo ``_FULL``, which lets no file of the kernel's grow, as on a full disk."""
    kernel.run("import resource as _resource")
    yield
    kernel.run("_resource.setrlimit(_resource.RLIMIT_FSIZE, (_resource.RLIM_INFINITY, _resource.RLIM_INFINITY))")


@pytest.mark.usefixtures("disk")
def test_full_disk_at_start_is_an_error(kernel: Kernel) -> None:
    kernel.run(_FULL)
    executed = kernel.run("%%npuprof --output full\nprint('ran')")
    assert_refused(kernel, executed, "CollectorError", "free some space", "another directory")
    assert kernel.evaluate("__import__('pathlib').Path('full').exists()") == "False"


@pytest.mark.usefixtures("disk")
def test_full_disk_costs_neither_value_nor_answer(kernel: Kernel) -> None:
    executed = kernel.run(f"%%npuprof --output filled\n{_FULL}\n42")
    assert executed.status == "ok"
    assert executed.value == "42"
    assert executed.has_report
    assert any("free some space" in shown["text/plain"] for shown in executed.displays)


def test_undecodable_recording_stays_and_can_be_opened(kernel: Kernel) -> None:
    executed = kernel.run(
        "%%npuprof --name spoilt\n"
        "import npuprof.session.active\n"
        "_directory = npuprof.session.active.current().recording.directory\n"
        "import npuprof.loading as _loading\n"
        "_load = _loading.load\n"
        "def _broken(path): raise RuntimeError('<b>no</b>')\n"
        "_loading.load = _broken\n"
        "42"
    )
    assert executed.status == "ok"
    assert executed.value == "42"
    message = executed.displays[0]
    assert "RuntimeError: <b>no</b>" in message["text/plain"]
    assert "&lt;b&gt;no&lt;/b&gt;" in message["text/html"]
    assert kernel.evaluate("f'npuprof.load({str(_directory)!r})'")[1:-1] in message["text/plain"]
    kernel.run("_loading.load = _load")
    again = kernel.run("%npuprof load '{_directory}'")
    assert again.has_report
    assert "spoilt" in again.displays[0]["text/plain"]


def test_an_error_that_cannot_be_printed_does_not_cost_the_report(kernel: Kernel) -> None:
    executed = kernel.run(
        "%%npuprof\nclass Mute(Exception):\n    def __str__(self): raise ValueError('no words')\nraise Mute"
    )
    assert executed.status == "error"
    assert "The cell raised ValueError: no words" in executed.displays[0]["text/plain"]


def test_a_falsy_error_is_a_failure(kernel: Kernel) -> None:
    executed = kernel.run("%%npuprof\nclass Empty(Exception):\n    def __len__(self): return 0\nraise Empty('x')")
    assert "Empty: x" in executed.displays[0]["text/plain"]


@pytest.mark.parametrize(
    ("line", "ename", "word"),
    [
        ("load /nowhere/at/all", "SourceError", "/nowhere/at/all"),
        ("load", "UsageError", "needs the path"),
        ("stop", "SessionError", "nothing to stop"),
        ("pause", "UsageError", "start"),
        ("stop --level 1", "UsageError", "%npuprof start"),
        ("status here", "UsageError", "no path"),
        ("start --level 7", "UsageError", "none, 0, 1, 2"),
    ],
)
def test_a_wrong_line_is_one_clear_error(kernel: Kernel, line: str, ename: str, word: str) -> None:
    assert_refused(kernel, kernel.run(f"%npuprof {line}"), ename, word)
