"""Files with objects of Kubernetes: their documents, and their text with other values.

Only the places of a change get another text. So comments, indentation, quotes, line ends and the order of keys stay as
their author wrote them, and JSON stays JSON. The new text is read again before it counts: if it has another value than
intended, the document keeps its text.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from device_plugin.adapters import yaml_text
from device_plugin.adapters.yaml_text import NotYamlError
from device_plugin.cli.convert import json_text, nodes
from device_plugin.cli.convert.edits import Editor, edited
from device_plugin.cli.convert.layout import Layout
from device_plugin.core.errors import VgpuError

BOM = "\ufeff"
_UNREADABLE = (VgpuError, yaml.YAMLError, ValueError)


class ConvertError(VgpuError):
    """A file cannot be converted or written.

    Cure: try the file with `kubectl apply --dry-run=client -f FILE`, which says where it is wrong.
    """


@dataclass(slots=True)
class Document:
    """A document of a text, at `start:end`, and its value.

    `node` is the document's YAML node. JSON begins at `at`, and gets its node only when the value changes.
    """

    source: str
    start: int
    end: int
    value: Any
    node: nodes.Node | None = None
    at: int = 0
    json: bool = False
    aliases: bool = False
    changed: str | None = None
    # True once a change replaced an alias by a copy.
    written_out: bool = False

    @property
    def text(self) -> str:
        """The document's text: the changed text if there is one, else the text as read."""
        return self.source[self.start : self.end] if self.changed is None else self.changed

    def change(self, after: Any) -> bool:
        """Give the document another value; returns False, and changes nothing, if its text cannot be changed."""
        node = json_text.node(self.source, self.at) if self.json else self.node
        if node is None:
            return False
        layout = Layout.of(self.source, self.start, self.end, node, is_json=self.json)
        editor = Editor(self.source, node, layout, aliases=self.aliases)
        editor.change(self.value, after)
        text = edited(self.source, self.start, self.end, editor.edits)
        try:
            text.encode()  # JSON can name half a character, which no file can have
            values = [found.value for found in (_json if self.json else _yaml)(text)]
        except _UNREADABLE:
            return False
        if values != [after]:
            return False
        self.changed, self.written_out = text, editor.written_out
        return True


@dataclass(frozen=True, slots=True)
class File:
    """A file: a byte order mark if it has one, and its documents in their order."""

    name: str
    mark: str
    documents: list[Document]

    @property
    def changed(self) -> bool:
        """True if a document has a change."""
        return any(document.changed is not None for document in self.documents)

    @property
    def text(self) -> str:
        """The text of the file, with all changes."""
        return self.mark + "".join(document.text for document in self.documents)


def read(name: str) -> File:
    """Read a file, `-` for standard input. Raises YamlFileError."""
    found: File = yaml_text.read(name, partial(_files, name))[0]
    return found


def write(file: File) -> None:
    """Replace the file if it has a change. Raises ConvertError."""
    if not file.changed:
        return
    try:
        Path(file.name).write_bytes(file.text.encode())
    except OSError as error:
        raise ConvertError(f"{file.name} cannot be written: {error.strerror}") from error


def _files(name: str, text: str) -> Iterator[File]:
    """Yields the one File of this name, with the documents of `text`. Raises NotYamlError and errors of PyYAML."""
    mark = BOM * text.startswith(BOM)
    yield File(name, mark, list(_documents(name, text.removeprefix(BOM))))


def _documents(name: str, text: str) -> list[Document]:
    """The documents of a text; their texts together are the whole text. Raises NotYamlError and errors of PyYAML."""
    if not text.lstrip().startswith(("{", "[")):
        return list(_yaml(text))
    try:
        return list(_json(text))
    except ValueError as error:
        wrong = error
    try:
        return list(_yaml(text))  # YAML in the style of JSON
    except (NotYamlError, yaml.YAMLError):
        if not name.endswith(".json"):
            raise
    raise NotYamlError(f"it is not JSON: {wrong}")


def _json(text: str) -> Iterator[Document]:
    found = list(json_text.values(text))
    if len(found) > yaml_text.MOST_DOCUMENTS:
        raise NotYamlError(f"it has more than {yaml_text.MOST_DOCUMENTS} documents: split it")
    start = 0
    for number, (at, end, value) in enumerate(found, start=1):
        end = len(text) if number == len(found) else end
        yield Document(text, start, end, value, at=at, json=True)
        start = end


def _yaml(text: str) -> Iterator[Document]:
    found = list(nodes.roots(text)) or [nodes.Root(0, None)]
    starts = [0, *(root.start for root in found[1:]), len(text)]
    for root, (start, end) in zip(found, pairwise(starts), strict=True):
        yield Document(text, start, end, nodes.value(root.node), root.node, aliases=root.aliases)
