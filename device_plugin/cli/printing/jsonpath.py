r"""Evaluates JSONPath as kubectl writes it, on the objects of -o json.

    {.nodes[*].name}                                       # the names, with spaces between them
    {range .jobs[*]}{.name}{"\t"}{.width}{"\n"}{end}        # a line for each job
    {.jobs[?(@.phase=="waiting")].name}                    # only of those that wait

Steps of a path: `.name`, `['name']`, `.*`, `[*]`, `[0]`, `[-1]`, `[0,2]`, `[0:3]`, `..name`, and a filter `[?(...)]`
with ==, !=, <, <=, >, >= or only a path. `@` is the present object, `$` the whole. `\.` is a dot in a name. A field
that is missing has no value, which is no error.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from operator import eq, ge, gt, le, lt, ne
from typing import Any, NamedTuple

from device_plugin.core.errors import VgpuError
from device_plugin.core.printable import printable

# Most characters of an expression, most ranges inside each other, and most values of one path.
MOST_CHARACTERS, MOST_RANGES, MOST_FILTERS, MOST_VALUES = 4096, 8, 8, 1_000_000
# kubectl's name of the list, at the beginning of a path. Here a list has the name of its objects, such as `nodes`.
_ITEMS = re.compile(r"\.?items(?![^\s.\[}])")
_NAME = re.compile(r"""(?:[^\s.,:\[\](){}*?@$'"=<>!\\]|\\.)+""")
_QUOTED = re.compile(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\"""")
_NUMBER = re.compile(r"-?[0-9]{1,9}(?![\w.])")
_SLICE = re.compile(r"(-?[0-9]{1,9})?:(-?[0-9]{1,9})?(?::([1-9][0-9]{0,8}))?(?=\])")
_LITERAL = re.compile(r"true|false|null|-?[0-9]{1,15}(?:\.[0-9]{1,15})?")
_OPERATOR = re.compile(r"==|!=|<=|>=|<|>")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_COMPARED: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge,
}  # fmt: skip

Step = Callable[[Any], Iterable[Any]]
"""A function that returns the values to which one step of a path leads from a value."""


class JsonPathError(VgpuError):
    """The expression is no JSONPath, or has too many values; the text says where it is wrong.

    Cure: correct it there; the page "Commands" of the documentation has the forms.
    """


class Path(NamedTuple):
    """A path: its steps, and whether it begins at the whole object."""

    steps: tuple[Step, ...]
    whole: bool = False

    def values(self, whole: Any, present: Any) -> list[Any]:
        """Returns the values at the path, which begins at `whole` or at `present`.

        Raises JsonPathError if there are more than MOST_VALUES.
        """
        found = [whole if self.whole else present]
        for step in self.steps:
            found = [*islice(chain.from_iterable(map(step, found)), MOST_VALUES + 1)]
            if len(found) > MOST_VALUES:
                raise JsonPathError(
                    f"JSONPath: a path has more than {MOST_VALUES:,} values: write a narrower one"
                )
        return found


Part = Callable[[Any, Any], Iterator[str]]
"""A function that yields the text of one part of a template, given the whole object and the present one."""


class Template(NamedTuple):
    """A template of kubectl's JSONPath: texts, and expressions in braces."""

    parts: tuple[Part, ...]

    @classmethod
    def of(cls, text: str, items: str) -> "Template":
        """Returns the template in this text. Raises JsonPathError.

        `items` is the key of the list in our JSON, such as `pods`; the name `items`, which kubectl uses, also works.
        """
        braced = text if "{" in text else f"{{{text}}}"
        return cls(tuple(_Parser(braced, items).parts()))

    def text(self, whole: Mapping[str, Any]) -> str:
        """Returns the template's text for the object `whole`. Raises JsonPathError."""
        return "".join(_texts(self.parts, whole, whole))


def path_of(text: str) -> Path:
    """Returns the path of a column: `.name`, `name` or `{.name}`. Raises JsonPathError."""
    inner = text[1:-1] if text.startswith("{") and text.endswith("}") else text
    parser = _Parser(inner, "")
    found = parser.path()
    parser.expect_end()
    return found


def cell(path: Path, value: Mapping[str, Any]) -> str:
    """Returns the values at the path as the text of a table's cell, with commas between them; empty without any."""
    return ",".join(as_text(found) for found in path.values(value, value) if found is not None)


def as_text(value: Any) -> str:
    """Returns a value as text: a string as it is, but printable, and anything else as JSON."""
    return printable(value) if isinstance(value, str) else json.dumps(value)


def _texts(parts: Iterable[Part], whole: Any, present: Any) -> Iterator[str]:
    for part in parts:
        yield from part(whole, present)


def _literal(text: str, _whole: Any, _present: Any) -> Iterator[str]:
    yield text


def _shown(path: Path, whole: Any, present: Any) -> Iterator[str]:
    yield " ".join(map(as_text, path.values(whole, present)))


def _repeated(path: Path, parts: Sequence[Part], whole: Any, present: Any) -> Iterator[str]:
    for each in path.values(whole, present):
        yield from _texts(parts, whole, each)


class _Parser:
    """Reads one text from its beginning to its end. `items` is the key of the list in -o json; empty without one."""

    def __init__(self, text: str, items: str) -> None:
        if len(text) > MOST_CHARACTERS:
            raise JsonPathError(f"JSONPath: write at most {MOST_CHARACTERS:,} characters")
        self._text = text
        self._items = items
        self._at = 0
        self._ranges = self._filters = 0

    def parts(self) -> Iterator[Part]:
        """Yields the parts of a template up to its end, or up to the `{end}` of a range. Raises JsonPathError."""
        while self._at < len(self._text):
            begin = self._text.find("{", self._at)
            if begin != self._at:
                begin = len(self._text) if begin < 0 else begin
                yield partial(_literal, self._text[self._at : begin])
                self._at = begin
                continue
            self._at += 1
            self._blank()
            if self._word("end"):
                self._close()
                if not self._ranges:
                    raise self._wrong("{end} without a {range ...}")
                return
            yield self._expression()
        if self._ranges:
            raise self._wrong("a {range ...} has no {end}")

    def _expression(self) -> Part:
        """Returns the expression whose brace has just been read."""
        if self._word("range"):
            path = self.path()
            self._close()
            self._ranges += 1
            if self._ranges > MOST_RANGES:
                raise self._wrong(f"more than {MOST_RANGES} ranges inside each other")
            inner = tuple(self.parts())
            self._ranges -= 1
            return partial(_repeated, path, inner)
        if (quoted := self._quoted()) is not None:
            self._close()
            return partial(_literal, quoted)
        path = self.path()
        self._close()
        return partial(_shown, path)

    def path(self, *, of_member: bool = False) -> Path:
        """Returns the path that begins at the present place of the text. Raises JsonPathError.

        `of_member` is true in a filter, whose paths begin at a member of a list.
        """
        self._blank()
        begin = self._at
        whole = self._take("$")
        if not whole:
            self._take("@")
        steps = list[Step]()
        if self._items and (whole or not (of_member or self._ranges)):
            steps += [partial(_child, self._items)] if self._match(_ITEMS) else []
        if self._at == begin and (name := self._name()) is not None:
            steps.append(partial(_child, name))
        while (step := self._step()) is not None:
            steps.append(step)
        if self._at == begin:
            raise self._wrong("a path is missing, such as .name")
        self._blank()
        return Path(tuple(steps), whole)

    def _step(self) -> Step | None:
        """Returns the next step of a path; None at the path's end."""
        if self._take(".."):
            if self._take("*"):
                return _descendants
            return partial(_named_below, self._needed(self._name(), "a name after .."))
        if self._take("."):
            if self._take("*"):
                return _children
            # `{.}` is the object itself.
            return _itself if (name := self._name()) is None else partial(_child, name)
        return self._bracket() if self._take("[") else None

    def _bracket(self) -> Step:
        """Returns the step in brackets whose opening bracket has just been read."""
        self._blank()
        if self._take("*"):
            step: Step = _children
        elif self._take("?("):
            step = self._filter()
        elif (sliced := self._match(_SLICE)) is not None:
            first, last, every = (int(each) if each else None for each in sliced.groups())
            step = partial(_members, slice(first, last, every))
        else:
            step = partial(_chosen, tuple(self._keys()))
        self._blank()
        if not self._take("]"):
            raise self._wrong("a ] is missing")
        return step

    def _keys(self) -> Iterator[str | int]:
        """Yields the names and numbers in brackets, which have commas between them."""
        while True:
            self._blank()
            if (name := self._quoted()) is not None:
                yield name
            else:
                yield int(self._needed(self._match(_NUMBER), "a number, a name in quotes, * or ?(...)")[0])
            self._blank()
            if not self._take(","):
                return

    def _filter(self) -> Step:
        """Returns the filter whose `?(` has just been read."""
        self._filters += 1
        if self._filters > MOST_FILTERS:
            raise self._wrong(f"more than {MOST_FILTERS} filters inside each other")
        left = self.path(of_member=True)
        operator = self._match(_OPERATOR)
        if operator is None:
            step: Step = partial(_having, left)
        else:
            self._blank()
            compare, right = _COMPARED[operator[0]], self._compared_with()
            step = partial(_matching, left, compare, right)
        self._blank()
        if not self._take(")"):
            raise self._wrong("a ) is missing")
        self._filters -= 1
        return step

    def _compared_with(self) -> Path | Any:
        """Returns the right side of a comparison: a path, or a value."""
        if self._text[self._at : self._at + 1] in ("@", "$"):
            return self.path(of_member=True)
        if (quoted := self._quoted()) is not None:
            return quoted
        return json.loads(
            self._needed(self._match(_LITERAL), "a number, a text in quotes, true, false or null")[0]
        )

    def expect_end(self) -> None:
        """Raise JsonPathError unless the whole text is read."""
        if self._at < len(self._text):
            raise self._wrong("a path ends before this")

    def _close(self) -> None:
        self._blank()
        if not self._take("}"):
            raise self._wrong("a } is missing")

    def _word(self, word: str) -> bool:
        """Read `word` and return True if it stands at the present place as a whole name; else return False."""
        found = _NAME.match(self._text, self._at)
        if found is None or found[0] != word:
            return False
        self._at = found.end()
        return True

    def _name(self) -> str | None:
        found = self._match(_NAME)
        return None if found is None else _ESCAPED.sub(r"\1", found[0])

    def _quoted(self) -> str | None:
        """Returns the text in quotes that begins here; None if none begins."""
        found = self._match(_QUOTED)
        if found is None:
            return None
        inner = found[1] if found[1] is not None else found[2]
        return _ESCAPED.sub(lambda each: _ESCAPES.get(each[1], each[1]), inner)

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
        return found

    def _take(self, sign: str) -> bool:
        if not self._text.startswith(sign, self._at):
            return False
        self._at += len(sign)
        return True

    def _blank(self) -> None:
        while self._text[self._at : self._at + 1].isspace():
            self._at += 1

    def _needed(self, found: Any, what: str) -> Any:
        if found is None:
            raise self._wrong(f"{what} is missing")
        return found

    def _wrong(self, why: str) -> JsonPathError:
        rest = self._text[self._at : self._at + 20]
        where = f"before {rest!r}" if rest else "at the end"
        return JsonPathError(f"JSONPath: {why}, {where} of {self._text[:80]!r}")


def _itself(value: Any) -> Iterable[Any]:
    return (value,)


def _child(name: str, value: Any) -> Iterable[Any]:
    return (value[name],) if isinstance(value, Mapping) and name in value else ()


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


def _descendants(value: Any) -> Iterator[Any]:
    """Yields the value and all values below it, each before its own parts."""
    left = [value]
    while left:
        yield (each := left.pop())
        left += reversed([*_children(each)])


def _named_below(name: str, value: Any) -> Iterator[Any]:
    return chain.from_iterable(_child(name, each) for each in _descendants(value))


def _members(part: slice, value: Any) -> Iterable[Any]:
    return value[part] if isinstance(value, list | tuple) else ()


def _chosen(keys: Sequence[str | int], value: Any) -> Iterator[Any]:
    """Yields the fields and members with these names and numbers; a negative number counts from the end."""
    for key in keys:
        if isinstance(key, str):
            yield from _child(key, value)
        elif isinstance(value, list | tuple) and -len(value) <= key < len(value):
            yield value[key]


def _having(path: Path, value: Any) -> Iterator[Any]:
    return (each for each in _children(value) if path.values(each, each))


def _matching(
    left: Path, compare: Callable[[Any, Any], bool], right: Path | Any, value: Any
) -> Iterator[Any]:
    """Yields the members whose first value at `left` compares as true with the first value at `right`."""
    for each in _children(value):
        found = left.values(each, each)
        other = right.values(each, each) if isinstance(right, Path) else [right]
        if found and other and _compares(compare, found[0], other[0]):
            yield each


def _compares(compare: Callable[[Any, Any], bool], one: Any, other: Any) -> bool:
    try:
        return compare(one, other)
    except TypeError:  # a number with a text, for example
        return False
