"""Answers to people's questions, in parts: one line, the reasons for it, and changes that would help."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to a person's question, in sentences without full stops.

    `line` is the answer itself, each of `reasons` is a cause or a further fact, and each of `helps` is a change that
    would lead to another answer. `source` says where the facts are from, and which facts are not known.
    """

    line: str
    reasons: Sequence[str] = ()
    helps: Sequence[str] = ()
    source: str = ""

    def as_paragraph(self) -> str:
        """The answer as one paragraph."""
        return ". ".join(filter(None, (self.line, *self.reasons, *self.helps, self.source)))

    def as_object(self) -> Mapping[str, object]:
        """The answer's parts as JSON, without the source."""
        return {"answer": self.line, "reasons": [*self.reasons], "help": [*self.helps]}


def sentence(text: str) -> str:
    """The text with a capital letter at its start."""
    return text[:1].upper() + text[1:]
