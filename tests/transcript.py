"""What tests take from pages: transcripts, files, and what a section says to run and to create.

A transcript is blocks of ```console with commands after `$ `, each followed by what it prints. Printed lines match what
is shown by words: spaces, ages (`5s`, `2m10s`) and the length of bars do not matter, and `…` stands for anything. Lines
that are not shown may not be printed, unless `…` stands in a line of its own.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_AGE = re.compile(r"(?<![\w.-])(?:\d+(?:d|h|m|s))+(?![\w.-])")
_BAR = re.compile(r"[█░▏▎▍▌▋▊▉]+")
ANYTHING = "…"


@dataclass(frozen=True)
class Step:
    """A command of a page, what the page shows that it prints, and the heading above it."""

    section: str
    command: str
    shown: tuple[str, ...]


def steps(page: str) -> Iterator[Step]:
    """The commands of a page, in order."""
    for section, _, text in _blocks(page, "console"):
        command, shown = "", list[str]()
        for line in text.splitlines():
            if line.startswith("$ "):
                if command:
                    yield Step(section, command, tuple(shown))
                command, shown = line[2:], []
            elif command.endswith("\\"):
                command = f"{command[:-1].rstrip()} {line.strip()}"
            else:
                shown.append(line)
        yield Step(section, command, tuple(shown))


def files(page: str) -> dict[str, str]:
    """The files that a page shows: blocks of YAML whose first line is a comment with a name."""
    found = (text.partition("\n") for _, _, text in _blocks(page, "yaml"))
    return {
        first.removeprefix("# "): rest for first, _, rest in found if re.fullmatch(r"# [\w-]+\.yaml", first)
    }


def write_files(page: str, folder: Path) -> None:
    """Write the files that a page shows."""
    for name, text in files(page).items():
        (folder / name).write_text(text, encoding="utf-8")


def commands(page: str, section: str = "") -> list[str]:
    """The lines of the blocks of ```sh in the section of this heading, or above all headings but the page's own."""
    return [line for where, _, text in _blocks(page, "sh") if where == section for line in text.splitlines()]


def documents(page: str, section: str = "") -> list[Any]:
    """The YAML documents in the section of this heading, or above all headings but the page's own."""
    shown = (text for where, _, text in _blocks(page, "yaml") if where == section)
    return [document for text in shown for document in yaml.safe_load_all(text)]


def difference(shown: Sequence[str], printed: Sequence[str]) -> str:
    """The first difference between what is shown and what was printed, as text; empty if there is none."""
    found = [line for line in printed if line.strip()]
    wanted = [line for line in shown if line.strip()]
    at = 0
    for number, line in enumerate(wanted):
        if line.strip() == ANYTHING:
            rest = wanted[number + 1 :]
            at = next(
                (place for place in range(at, len(found)) if rest and matches(rest[0], found[place])),
                len(found),
            )
            continue
        if at == len(found) or not matches(line, found[at]):
            return f"shown:   {line}\nprinted: {found[at] if at < len(found) else '(nothing more)'}"
        at += 1
    return f"not shown: {found[at]}" if at < len(found) else ""


def matches(shown: str, printed: str) -> bool:
    """True if a printed line is as shown."""
    pattern = ".*".join(re.escape(_plain(part)) for part in shown.split(ANYTHING))
    return re.fullmatch(pattern.replace(r"\ ", r"\s*"), _plain(printed)) is not None


def _plain(line: str) -> str:
    return " ".join(_AGE.sub("0s", _BAR.sub("█", line)).split())


def _blocks(page: str, language: str) -> Iterator[tuple[str, str, str]]:
    """Blocks of a language, each with the heading above it."""
    for match in _BLOCK.finditer(page):
        if match[1] == language:
            headings = re.findall(r"^##+ (.+)$", page[: match.start()], re.MULTILINE)
            yield headings[-1] if headings else "", match[1], match[2]
