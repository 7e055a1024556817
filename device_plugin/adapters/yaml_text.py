"""YAML as people write it: whatever is wrong with it is one error with one sentence."""

import re
from typing import Any

import yaml

from device_plugin.core.errors import VgpuError
from device_plugin.core.printable import one_line

# A reader in C, 20 times as fast as the one in Python. It overflows the stack of a text that is nested deeply.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MOST_DEPTH = 100
UNREADABLE = (
    yaml.YAMLError, RecursionError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError,
)  # fmt: skip
"""The errors of PyYAML's readers. Most are of a value that its tag does not fit: `!!int x`, `2001-99-99`."""
# Where an error of a reader ends in the place, which is said before the problem.
_PLACE = re.compile(r' in "<[a-z ]+ string>", ')


class NotYamlError(VgpuError):
    """The text is not YAML; the message says where and why.

    Cure: correct the line.
    """


def parse(text: str) -> Any:
    """The one document of the text, as a mapping, a list or a value. Raises NotYamlError."""
    try:
        _check_depth(text)
        return yaml.load(text, Loader=_LOADER)  # noqa: S506 - a safe loader
    except UNREADABLE as error:
        raise NotYamlError(problem_of(error)) from None


def problem_of(error: Exception) -> str:
    """Where a text is not YAML, and why, in one sentence. `error` is of PyYAML or of ruamel.yaml, or in UNREADABLE."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return "it is not text"
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    line = f"line {mark.line + 1}: " if mark is not None else ""
    return line + one_line(_PLACE.sub(" at ", str(problem or error)))


def _check_depth(text: str) -> None:
    """Raise NotYamlError for a text that is nested deeper than MOST_DEPTH."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MOST_DEPTH:
            raise NotYamlError(f"it is nested deeper than {MOST_DEPTH} levels")
