"""Every command that README and docs show exists, and takes the words that they show."""

import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from device_plugin.wiring.commands import parse
from tests.deadline import eventually
from tests.pages import PAGES, PROJECT, blocks

_LINE = re.compile(r"(?:\$ )?(?:kubectl )?(vgpu|make|hack/[a-z-]+)( |$)")
# `vgpu drain` in a sentence names a command; with more words it is one.
_INLINE = re.compile(r"`((?:(?:kubectl )?vgpu [a-z]+|make|hack/[a-z-]+) [^`…]+)`")


def commands() -> Iterator[tuple[Path, list[str]]]:
    """The words of each line of a block or of inline code that begins with a program of ours, up to a pipe."""
    found = [
        (page, line)
        for page, text in blocks("sh", "console", "")
        for line in text.splitlines()
        if _LINE.match(line)
    ]
    found += [(page, line) for page in PAGES for line in _INLINE.findall(page.read_text(encoding="utf-8"))]
    for page, line in found:
        words = shlex.split(line.removeprefix("$ ").removeprefix("kubectl "), comments=True)
        yield page, list(takewhile(lambda word: word not in (">", "|", "&&"), words))


def of(program: str) -> list[Any]:
    return [
        pytest.param(words, id=f"{page.relative_to(PROJECT)}: {' '.join(words)}")
        for page, words in commands()
        if words[0].startswith(program)
    ]


def test_no_page_asks_for_the_body_of_readyz_where_it_is_not_shown() -> None:
    """Of an answer 503 `kubectl get --raw` prints `ServiceUnavailable` alone."""
    assert not [page for page in PAGES if "proxy/readyz" in page.read_text(encoding="utf-8")]


@pytest.mark.parametrize("words", of("vgpu"))
def test_a_command_of_vgpu_parses(words: list[str]) -> None:
    if words[-1] == "--help":
        with pytest.raises(SystemExit, match=r"^0$"):
            parse(words[1:])
    else:
        assert callable(parse(words[1:]).run)


def test_each_target_of_make_exists() -> None:
    targets = set(re.findall(r"^(\w+):", (PROJECT / "Makefile").read_text(), re.MULTILINE))
    for page, words in commands():
        if words[0] == "make":
            named = {word for word in words[1:] if "=" not in word}
            assert named, (page, words)
            assert named <= targets, (page, words)


def test_each_script_exists_and_knows_the_flags() -> None:
    for page, words in commands():
        if words[0].startswith("hack/"):
            script = PROJECT / words[0]
            assert script.is_file(), (page, words)
            module = re.search(r"-m hack\.([\w.]+)", script.read_text())
            assert module is not None
            path = PROJECT / "hack" / module[1].replace(".", "/")
            sources = [path.with_suffix(".py")] if path.with_suffix(".py").is_file() else [*path.glob("*.py")]
            text = "\n".join(source.read_text() for source in sources)
            own = takewhile(
                lambda word: word not in ("kubectl", "run"), words[1:]
            )  # what follows is another's
            for flag in (word.split("=")[0] for word in own if word.startswith("--")):
                assert f'"{flag}"' in text, (page, words)


def test_a_command_for_events_says_of_which_namespace() -> None:
    found = re.compile("kubectl (?:-[nA] .*)?get events.*")
    for page in PAGES:
        for command in found.findall(page.read_text(encoding="utf-8")):
            assert re.search(" (-n [a-zA-Z]|-A )", command), (page, command)


def test_each_file_that_a_page_names_exists() -> None:
    path = re.compile(r"`((?:device_plugin|docs|hack|manifests|tests|vgpu_runtime)/[\w./-]*)`")
    for page in PAGES:
        for named in path.findall(page.read_text(encoding="utf-8")):
            assert (PROJECT / named).exists(), (page, named)


def test_the_program_of_a_job_saves_when_it_is_told_to_leave_and_goes_on_from_there(tmp_path: Path) -> None:
    (text,) = (text for page, text in blocks("python") if page.name == "jobs.md")
    saved, endless = tmp_path / "checkpoint.json", text.replace("100_000", "10**12")
    with subprocess.Popen([sys.executable, "-c", endless], cwd=tmp_path) as program:
        assert eventually(saved.exists, 30)
        program.send_signal(signal.SIGTERM)
        assert program.wait(30) == 1
    left = json.loads(saved.read_text())["step"]
    rest = text.replace("100_000", str(left + 5))
    subprocess.run([sys.executable, "-c", rest], cwd=tmp_path, check=True, timeout=30)
    assert json.loads(saved.read_text())["step"] == left + 5
    assert [path.name for path in tmp_path.iterdir()] == [saved.name]
