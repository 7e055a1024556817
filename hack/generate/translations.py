"""`python -m hack.generate.translations PAGE…`: record in Chinese pages which text of the English pages they translate.

The record is a comment, the last line of the Chinese page. It names the English page and Git's hash of its text, so
that `git diff HASH PAGE` shows every later change of the English page.
"""

import argparse
import hashlib
import re
from pathlib import Path

PROJECT = Path(__file__).parents[2]
ENDING = ".zh.md"
_RECORD = re.compile(r"\n<!-- Translation of \S+ as of ([0-9a-f]{12}) -->\n\Z")


def english(page: Path) -> Path:
    """The English page of a Chinese one: docs/start.md for docs/start.zh.md."""
    return page.with_name(page.name.removesuffix(ENDING) + ".md")


def problem(page: Path, root: Path = PROJECT) -> str:
    """A sentence that says how the record of a Chinese page differs from its English page, or an empty text."""
    name, source = page.relative_to(root), english(page)
    command = f"python -m hack.generate.translations {name}"
    found = _RECORD.search(page.read_text(encoding="utf-8"))
    if found is None:
        return f"{name} has no record of the English text that it translates: run `{command}`"
    if found[1] == _hash(source):
        return ""
    return (
        f"{source.relative_to(root)} has changed since {name} was translated"
        f" (`git diff {found[1]} {source.relative_to(root)}` shows how): translate the change, then run `{command}`"
    )


def renew(page: Path, root: Path = PROJECT) -> None:
    """Record that a Chinese page translates the text that its English page has now."""
    source = english(page)
    text = _RECORD.sub("", page.read_text(encoding="utf-8")).rstrip("\n")
    record = f"<!-- Translation of {source.relative_to(root)} as of {_hash(source)} -->"
    page.write_text(f"{text}\n\n{record}\n", encoding="utf-8")


def _hash(page: Path) -> str:
    """The beginning of the hash under which Git stores the page's text."""
    text = page.read_bytes()
    return hashlib.sha1(b"blob %d\0%s" % (len(text), text), usedforsecurity=False).hexdigest()[:12]


def _page(word: str) -> Path:
    page = Path(word).resolve()
    if not page.name.endswith(ENDING) or not page.is_file() or not page.is_relative_to(PROJECT):
        raise argparse.ArgumentTypeError(f"{word} is no page of this project whose name ends in {ENDING}")
    return page


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m hack.generate.translations", description=__doc__)
    parser.add_argument("pages", nargs="+", type=_page, metavar="PAGE", help="such as docs/start.zh.md")
    for page in parser.parse_args().pages:
        renew(page)
        print(page.relative_to(PROJECT))


if __name__ == "__main__":
    main()
