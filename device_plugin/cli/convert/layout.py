"""New values as text, in the layout of the document that gets them: its indentation, line ends and quotes."""

import json
import math
import re
from dataclasses import dataclass
from typing import Any

import yaml

from device_plugin.cli.convert.nodes import MappingNode, Node, Plain, plain_tag

# A text that needs no quotes anywhere, if it is no number or the like.
_BARE = re.compile(r"[A-Za-z_/](?:[-A-Za-z0-9_./]*[A-Za-z0-9_/])?")
_INDENTED = re.compile(r"\n([ \t]+)[^ \t\r\n]")
_STEP = "  "


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a document: its line ends, and the white space by which each level is indented.

    This white space is empty for JSON in one line.
    """

    newline: str
    step: str
    json: bool = False

    @classmethod
    def of(cls, text: str, start: int, end: int, root: Node, *, is_json: bool) -> "Layout":
        """The layout of a document of the text, at `start:end`: JSON, or YAML with this root."""
        newline = "\n" if text.find("\r\n", start, end) < 0 else "\r\n"
        if is_json:
            indented = _INDENTED.search(text, start, end)
            return cls(newline, indented[1] if indented else "", json=True)
        return cls(newline, _step(text, root))

    def flow(self, value: Any, gap: str = "") -> str:
        """Returns the value as text in flow style: lists in brackets, mappings in braces.

        YAML is in one line. JSON is in several lines if `gap` has a line break: `gap` is the white space before the
        value's key, or before a key next to it.
        """
        if not self.json:
            return _dump([value], default_flow_style=True)[1:-2]
        if not self.step or "\n" not in gap:
            return json.dumps(value, ensure_ascii=False)
        lines = json.dumps(value, ensure_ascii=False, indent=self.step).splitlines()
        return (self.newline + gap.rpartition("\n")[2]).join(lines)

    def key(self, key: str, like: str) -> str:
        """The key as text; it gets quotes if `like`, the text of another key, has quotes."""
        return json.dumps(key) if like.startswith(('"', "'")) else self.flow(key)

    def pair(self, key: str, value: Any, indent: str) -> str:
        """Returns the key and its value as text for a mapping that has a line for each key, indented by `indent`."""
        return self._lines({key: value}, indent)

    def behind_colon(self, value: Any, indent: str) -> str:
        """The text of a value behind the colon of its key; `indent` is the indentation of the key's line."""
        if not value or not isinstance(value, dict):
            return " " + self.flow(value)
        return self.newline + indent + self.step + self._lines(value, indent + self.step)

    def _lines(self, value: Any, indent: str) -> str:
        text = _dump(value, default_flow_style=False, indent=len(self.step))
        return (self.newline + indent).join(text.splitlines())


def _step(text: str, root: Node) -> str:
    """Returns the indentation of the first mapping inside the document's own mapping; two spaces if there is none."""
    for _, value in root.pairs if isinstance(root, MappingNode) else ():
        if isinstance(value, MappingNode) and not value.flow:
            first = value.pairs[0][0].start
            indent = text[text.rfind("\n", 0, first) + 1 : first]
            if indent.isspace():
                return indent
    return _STEP


class _Dumper(yaml.SafeDumper):
    """Writes each value in full, even if it occurs again, and each text that is not plain in double quotes."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the signature of PyYAML
        return True


def _dump(value: Any, **options: Any) -> str:
    text: str = yaml.dump(
        value, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=math.inf, **options
    )
    return text


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    # Readers of YAML 1.1 take a plain `y` or `n` for a boolean, as its specification has it and PyYAML does not.
    bare = _BARE.fullmatch(value) and plain_tag(value).endswith(":str") and value.lower() not in ("y", "n")
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, None if bare else '"')


def _plain(dumper: yaml.SafeDumper, value: Plain) -> yaml.Node:
    return dumper.represent_scalar(value.tag, value.text)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(Plain, _plain)
