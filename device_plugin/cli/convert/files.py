"""Files with objects of Kubernetes: their documents, and the text that these become.

A document without a change keeps its text. A changed one keeps the comments above it and in it, quotes, and the order
of keys; its aliases are written out, so that a change of one pod is no change of another. JSON stays JSON.
"""

import json
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import yaml as pyyaml
from ruamel.yaml import YAML
from ruamel.yaml.comments import Comment, CommentedMap, CommentedSeq, Format
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from device_plugin.adapters import yaml_text
from device_plugin.core.errors import VgpuError

# Of `kubectl get -o json`.
JSON_INDENT = 4


class ConvertError(VgpuError):
    """A file cannot be converted or written.

    Cure: try the file with `kubectl apply --dry-run=client -f FILE`, which says where it is wrong.
    """


@dataclass(slots=True)
class Document:
    """A document of a file: its own text, the text above it up to `---`, and its value."""

    head: str
    body: str
    value: Any
    json: bool = False

    def own_parts(self) -> bool:
        """Write out the aliases, so that no two parts of the value are one object; returns False without any."""
        shared = not self.json and _shares(self.value, {})
        if shared:
            self.value = _written_out(self.value)
        return shared

    def written(self) -> str:
        """The text of the value."""
        if self.json:
            return json.dumps(self.value, indent=JSON_INDENT, ensure_ascii=False) + "\n"
        text = StringIO()
        _yaml().dump(self.value, text)
        return text.getvalue()

    def change(self, text: str) -> None:
        """Replace the document's own text."""
        self.body = "\n" * self.head.endswith("---") + text


def read(name: str) -> list[Document]:
    """The documents of a file, `-` for standard input. Raises YamlFileError."""
    return yaml_text.read(name, _documents, YAMLError)


def text_of(documents: list[Document]) -> str:
    """The text of a file with these documents."""
    return "".join(document.head + document.body for document in documents)


def write(name: str, documents: list[Document]) -> None:
    """Replace a file's text. Raises ConvertError."""
    try:
        Path(name).write_text(text_of(documents), encoding="utf-8")
    except OSError as error:
        raise ConvertError(f"{name} cannot be written: {error.strerror}") from error


def _documents(text: str) -> Iterator[Document]:
    """The documents of a text. Raises YAMLError and errors of PyYAML."""
    if text.lstrip().startswith(("{", "[")):
        try:
            yield Document("", text, json.loads(text), json=True)
        except ValueError:  # YAML in the style of JSON
            pass
        else:
            return
    begin = 0
    for head, end in _bounds(text):
        try:
            value = _yaml().load(text[head:end])
        except MarkedYAMLError as error:
            if error.problem_mark is not None:
                error.problem_mark.line += text.count("\n", 0, head)
            raise
        yield Document(text[begin:head], text[head:end], value)
        begin = end


def _bounds(text: str) -> Iterator[tuple[int, int]]:
    """Where each document's own text begins, behind its `---`, and where it ends: at the next `---`."""
    starts: list[Any] = [
        event
        for event in pyyaml.parse(text, Loader=pyyaml.SafeLoader)
        if isinstance(event, pyyaml.DocumentStartEvent)
    ]
    for number, event in enumerate(starts):
        following = starts[number + 1].start_mark.index if number + 1 < len(starts) else len(text)
        yield event.end_mark.index if event.explicit else 0, following


def _yaml() -> YAML:
    """Returns a YAML reader and writer that keeps comments, quotes and the order of keys."""
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096
    return yaml


def _shares(value: object, met: dict[int, object]) -> bool:
    """True if a list or mapping is met for a second time, or a mapping merges another one (`<<`).

    `met` holds them by identity: a value that nothing holds could give its identity to another.
    """
    if not isinstance(value, (MutableMapping, list)):
        return False
    if id(value) in met or (isinstance(value, CommentedMap) and value.merge):
        return True
    met[id(value)] = value
    return any(
        _shares(part, met) for part in (value.values() if isinstance(value, MutableMapping) else value)
    )


def _written_out(value: Any) -> Any:
    """A copy with the comments and styles of each mapping and list. Merged keys come last, as keys of its own."""
    if isinstance(value, CommentedMap):
        copy: Any = CommentedMap((key, _written_out(part)) for key, part in value.items())
    elif isinstance(value, CommentedSeq):
        copy = CommentedSeq(_written_out(part) for part in value)
    else:
        return value
    setattr(copy, Comment.attrib, value.ca)
    setattr(copy, Format.attrib, value.fa)
    return copy
