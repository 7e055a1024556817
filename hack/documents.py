"""Reads YAML that the project or one of its tools wrote, by PyYAML's reader in C, which is 20 times as fast."""

from typing import Any

import yaml


def documents(text: str) -> list[Any]:
    """Returns the documents of the text that are not empty."""
    return [each for each in yaml.load_all(text, yaml.CSafeLoader) if each]
