"""Commands that fail: one line on stderr, and the exit status that says how."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from device_plugin.cli import cards, why
from device_plugin.wiring import completion, failures, node_command
from device_plugin.wiring.commands import main

SECONDS = 60.0
PROGRAM = (sys.executable, "-m", "device_plugin")


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """Listens, and never says anything."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(SECONDS)
        yield listener


@pytest.fixture
def kubeconfig(silent: socket.socket, tmp_path: Path) -> Path:
    file = tmp_path / "kubeconfig"
    file.write_text(
        "{current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server:"
        f" 'http://127.0.0.1:{silent.getsockname()[1]}'}}}}]}}"
    )
    return file


@pytest.mark.parametrize(
    "words",
    [
        ["cards"], ["why", "a"], ["queue"], ["check"], ["ui"], ["drain", "a"],
        ["run", "a", "--image=I", "--mem=1", "--", "x"],
    ],
    ids=str,
)  # fmt: skip
def test_ctrl_c_ends_a_command_while_nothing_answers(
    words: Sequence[str], silent: socket.socket, kubeconfig: Path
) -> None:
    words = [words[0], f"--kubeconfig={kubeconfig}", *words[1:]]
    # In the background a shell lets the tests, and what they start, ignore the signal.
    heeding = ["env", "--default-signal=INT", *PROGRAM, *words]
    with subprocess.Popen(heeding, stderr=subprocess.PIPE, text=True) as process:
        asking, _ = silent.accept()
        with asking:
            asking.settimeout(SECONDS)
            assert asking.recv(4)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=SECONDS)
    assert (process.returncode, said) == (130, "vgpu: interrupted\n")


def test_who_closes_the_pipe_is_told_nothing() -> None:
    reads, writes = os.pipe()
    os.close(reads)
    try:
        done = subprocess.run(
            [*PROGRAM, "completion", "bash"],
            stdout=writes, stderr=subprocess.PIPE, text=True, timeout=SECONDS, check=False,
        )  # fmt: skip
    finally:
        os.close(writes)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize(
    ("words", "unbuffered"),
    [(["completion", "bash"], ""), (["completion", "bash"], "1"), (["--help"], "")],
    ids=str,
)
def test_a_full_disk_is_an_error(words: Sequence[str], unbuffered: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*PROGRAM, *words],
            stdout=full,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            text=True,
            timeout=SECONDS,
            check=False,
        )
    assert (done.returncode, done.stderr) == (2, "vgpu: No space left on device\n")


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_closed_stream_is_none_that_fails(closed: int) -> None:
    words = ["sh", "-c", f'exec "$@" {closed}>&-', "sh", *PROGRAM, "convert", "-"]
    done = subprocess.run(words, input="{}", capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


def test_a_word_that_is_no_text_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", os.fsdecode(b"a\xff")]) == 2
    assert capsys.readouterr().err == "vgpu: 'a\\udcff' is not text in UTF-8: correct this argument\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["why", ""], "'' names nothing: write NAME, NAMESPACE/NAME or job/NAME or jobset/NAME"),
        (["why", "pod/"], "'pod/' names nothing: write NAME, NAMESPACE/NAME or job/NAME or jobset/NAME"),
        (["why", "/a"], "'/a' names nothing: write NAME, NAMESPACE/NAME or job/NAME or jobset/NAME"),
        (["why", "A B"], "'A B' is no name in Kubernetes: write small letters, digits and hyphens"),
        (["why", "a/b/c"], "'a/b' is no name of a namespace: write small letters, digits and hyphens"),
        (["queue", "admit", ""], "'' names nothing: write NAME, NAMESPACE/NAME or jobset/NAME"),
        (["queue", "admit", "job/"], "'job/' names nothing: write NAME, NAMESPACE/NAME or jobset/NAME"),
        (["cards", "-n", "a/b"], "'a/b' is no name of a namespace: write small letters, digits and hyphens"),
        (["fit", "/nowhere"], "/nowhere cannot be read: No such file or directory"),
        (["convert", "/nowhere"], "/nowhere cannot be read: No such file or directory"),
        (
            ["cards", "--kubeconfig", "/nowhere"],
            "kubeconfig /nowhere does not exist: name another one with --kubeconfig",
        ),
        (["cards", "--kubeconfig", "/"], "kubeconfig / cannot be read: Is a directory"),
        (
            ["cards", "--kubeconfig", "a\nb"],
            "kubeconfig a b does not exist: name another one with --kubeconfig",
        ),
        (["cards", "--kubeconfig", "/" + "x" * 5000], "kubeconfig /xxx"),
    ],
    ids=lambda each: str(each)[:40],
)
def test_odd_words_are_answered_with_one_line(
    words: list[str],
    says: str,
    kubeconfig: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    assert main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"vgpu: {says}")
    assert len(line) < 2100


def broken(*_: object) -> int:
    raise KeyError("x" * 5000 + "\n")


@pytest.mark.parametrize("verbose", [False, True])
def test_a_defect_is_one_line_that_says_where(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    *,
    verbose: bool,
) -> None:
    monkeypatch.setattr(cards, "run", broken)
    with caplog.at_level("DEBUG" if verbose else "INFO", failures.__name__):
        assert main(["cards", *(["-v"] if verbose else [])]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("vgpu: a defect of vgpu (KeyError: 'xxx")
    assert line.endswith(f"test_failures.py:{broken.__code__.co_firstlineno + 1}): please report it")
    assert ("Traceback" in caplog.text) == verbose


def test_an_error_that_is_expected_has_no_traceback_among_its_details(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("DEBUG", failures.__name__):
        assert main(["cards", "-v", "--kubeconfig", "/nowhere"]) == 2
    assert "Traceback" not in capsys.readouterr().err + caplog.text


def test_the_log_of_a_service_has_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_command, "run", broken)
    with pytest.raises(KeyError):
        main(["node"])


def test_a_package_that_is_missing_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(_: object) -> int:
        raise ModuleNotFoundError("No module named 'numpy'", name="numpy")

    monkeypatch.setattr(why, "run", missing)
    assert main(["why", "a"]) == 2
    assert capsys.readouterr().err == (
        "vgpu: the package numpy is missing: run pip install '.[cli]' in a checkout of vgpu\n"
    )


@pytest.mark.parametrize(
    ("error", "status", "says"),
    [
        (PermissionError(13, "Permission denied", "/a"), 2, "vgpu: /a: Permission denied\n"),
        (KeyboardInterrupt(), 130, "vgpu: interrupted\n"),
        (RecursionError("too deep"), 2, "vgpu: a defect of vgpu (RecursionError: too deep, "),
    ],
    ids=str,
)
def test_what_else_may_happen(
    error: BaseException,
    status: int,
    says: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(_: object) -> int:
        raise error

    monkeypatch.setattr(completion, "run", fails)
    assert main(["completion", "bash"]) == status
    assert capsys.readouterr().err.startswith(says)


def test_a_command_of_others_is_not_of_people(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cards, "run", broken)
    with pytest.raises(KeyError):
        main(["cards"], more=[("cards", "", cards.__name__)])
