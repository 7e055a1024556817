"""Pods as a file has them, and their conversion."""

import random
from typing import Any

from device_plugin.cli.convert.pods import Conversion, Target

HYGON = Target("hygon.com/dcu")


def pod(limits: dict[str, Any], annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "resources": {"limits": dict(limits)}}
    return {
        "kind": "Pod",
        "metadata": {"annotations": annotations or {}},
        "spec": {"containers": [container], **spec},
    }


def converted(document: dict[str, Any], target: Target = HYGON) -> Conversion:
    conversion = Conversion(target)
    conversion.run(document)
    return conversion


def limits(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["spec"]["containers"][0]["resources"]["limits"]
    return found


_SCALARS = (
    "a", "1", '"x y"', "'it''s'", "0.5", "null", "~", "true", "2024-01-01", '"é中😀"', "010", "some words", '"- a"', "",
)  # fmt: skip


class Author:
    """Writes YAML in random styles with numbered comments, `# C1`, and changes values at random."""

    def __init__(self, pick: random.Random) -> None:
        self._pick = pick
        self._comments = self._keys = 0
        self._anchors: list[str] = []

    def text(self) -> str:
        """A mapping of a few levels."""
        self._anchors = []
        newline = self._pick.choice(["\n", "\r\n"])
        return newline.join(self._mapping(0, 4)) + newline

    def changed(self, value: Any) -> Any:
        """The value with some keys removed, added and changed, and some items of lists removed."""
        pick = self._pick
        if isinstance(value, dict):
            made = {key: self.changed(part) for key, part in value.items() if pick.random() < 0.85}
            for _ in range(pick.choice([0, 0, 0, 1, 2])):
                made[self._key().strip("\"'")] = pick.choice([1, "s", {"a": "1"}, "!x"])
            # An item of a list that loses all keys loses its comments.
            return made or dict(value)
        if isinstance(value, list):
            return [self.changed(part) for part in value] if pick.random() < 0.8 else value[:1]
        return value if pick.random() < 0.9 else pick.choice([7, "z"])

    def _key(self) -> str:
        self._keys += 1
        return self._pick.choice(["k%d", "nvidia.com/k%d", '"q%d"', "'s%d'"]) % self._keys

    def _comment(self, before: str = "") -> list[str]:
        self._comments += 1
        return [f'{before}# C{self._comments} - {{x: "y']

    def _end(self, line: str) -> str:
        return line + self._comment("  ")[0] if self._pick.random() < 0.25 else line

    def _scalar(self) -> str:
        if self._anchors and self._pick.random() < 0.12:
            return f"*{self._pick.choice(self._anchors)}"
        found = self._pick.choice(_SCALARS)
        if found and self._pick.random() < 0.1:
            self._anchors.append(f"n{len(self._anchors)}")
            return f"&{self._anchors[-1]} {found}"
        return found

    def _flow(self, depth: int) -> str:
        parts = range(self._pick.randint(0, 3))
        style = self._pick.random()
        if depth == 0 or style < 0.4:
            return self._scalar() or '""'
        if style < 0.7:
            return "{" + ", ".join(f"{self._key()}: {self._flow(depth - 1)}" for _ in parts) + "}"
        return "[" + ", ".join(self._flow(depth - 1) for _ in parts) + "]"

    def _value(self, indent: int, depth: int) -> list[str]:
        """The lines of a key's value, the first of them behind the colon."""
        style = self._pick.random()
        if depth == 0 or style < 0.35:
            return [self._end(f" {self._scalar()}".rstrip())]
        if style < 0.45:
            text = " " * (indent + self._pick.choice([1, 2, 4])) + self._pick.choice(["x", "# no comment"])
            return [
                self._end(f" {self._pick.choice(['|', '|-', '|+', '>', '>-'])}"),
                text,
                *[""] * self._pick.randint(0, 2),
            ]
        if style < 0.6:
            return [self._end(f" {self._flow(2)}")]
        if style < 0.85:
            return [self._end(""), *self._mapping(indent + self._pick.choice([1, 2, 4]), depth - 1)]
        return [self._end(""), *self._list(indent + self._pick.choice([0, 2]), depth - 1)]

    def _mapping(self, indent: int, depth: int) -> list[str]:
        lines: list[str] = []
        for number in range(self._pick.randint(1, 4)):
            if number and self._pick.random() < 0.3:
                lines += self._pick.choice([[""], self._comment(" " * indent)])
            first, *others = self._value(indent, depth)
            lines += [f"{' ' * indent}{self._key()}:{first}", *others]
        return lines

    def _list(self, indent: int, depth: int) -> list[str]:
        lines: list[str] = []
        for _ in range(self._pick.randint(1, 3)):
            first, *others = (
                self._mapping(indent + 2, depth) if self._pick.random() < 0.6 else ["  " + self._flow(1)]
            )
            lines += [f"{' ' * indent}- {first.lstrip(' ')}", *others]
        return lines
