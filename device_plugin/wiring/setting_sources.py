"""Reads settings: a flag beats an environment variable, which beats the file, which beats the default.

    # vgpu node --config FILE
    version: v1
    nodeName: gpu-1
    memUnitMiB: 512

The environment variable of `nodeName` is VGPU_NODE_NAME and its flag --node-name; settings of the API server are
VGPU_KUBE_SERVER and --kube-server. Unknown keys are refused, so that a typing error cannot stay unnoticed.
"""

import argparse
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec
import yaml
from msgspec import Meta

from device_plugin.wiring import settings_checks as checks
from device_plugin.wiring.settings import (
    KINDS,
    ClusterSettings,
    JobsSettings,
    NodeSettings,
    Settings,
    SettingsError,
    UiSettings,
)

VERSION = "v1"
# msgspec's names of YAML types.
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "`key: value` lines",
}


@dataclass(frozen=True)
class Setting:
    """One setting of a service, with its key in the file, its flag and its environment variable.

    `type` is the type of its values, and `meta` has its description.
    """

    path: tuple[str, ...]
    field: msgspec.structs.FieldInfo
    type: Any
    meta: Meta

    @property
    def key(self) -> str:
        """The setting's name in the settings file, such as `nodeScore.askSeconds`."""
        return ".".join(self.path)

    @property
    def flag(self) -> str:
        """The setting's name on the command line, such as `--node-score-ask-seconds`."""
        return f"--{'-'.join(self._words)}"

    @property
    def variable(self) -> str:
        """The setting's name in the environment, such as `VGPU_NODE_SCORE_ASK_SECONDS`."""
        return f"VGPU_{'_'.join(self._words).upper()}"

    @property
    def default(self) -> str:
        """The setting's default value, as a person writes it; empty if it has none."""
        value = (
            self.field.default_factory() if self.field.default is msgspec.NODEFAULT else self.field.default
        )
        return value if isinstance(value, str) else json.dumps(value)

    @property
    def description(self) -> str:
        """The sentence that help and docs show for the setting."""
        return f"{self.meta.description}"

    @property
    def example(self) -> str:
        """The form of a list or mapping on the command line, with an example; empty for other types."""
        return f"as JSON, such as {json.dumps(self.meta.examples[0])}" if self.meta.examples else ""

    @property
    def choices(self) -> tuple[str, ...]:
        """The values that the setting may have; empty if any value of its type is allowed."""
        return get_args(self.type) if get_origin(self.type) is Literal else ()

    @property
    def _words(self) -> list[str]:
        spaced = (re.sub(r"MiB$", "Mib", part) for part in self.path)
        return [word.lower() for part in spaced for word in re.findall(r"[A-Z]?[a-z0-9]+", part)]


def settings_of(kind: type[msgspec.Struct], path: tuple[str, ...] = ()) -> Iterator[Setting]:
    """Yields the settings of a service in the order of its fields.

    The path of a setting in a group begins with the group's key.
    """
    for field in msgspec.structs.fields(kind):
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from settings_of(field.type, (*path, field.encode_name))
        else:
            yield Setting((*path, field.encode_name), field, *get_args(field.type))


def add_flags(parser: argparse.ArgumentParser, kind: type[Settings]) -> None:
    """Give `parser` --config and one flag for each setting of `kind`."""
    parser.add_argument("--config", metavar="FILE", help="YAML file of settings (version: v1)")
    for setting in settings_of(kind):
        parser.add_argument(setting.flag, dest=setting.key, metavar="VALUE", help=_hint(setting))


def load(kind: type[Settings], flags: Mapping[str, Any], environ: Mapping[str, str]) -> Settings:
    """Returns settings of `kind` from the parsed `flags` (see add_flags), the environment and the settings file.

    The flag --config or the variable VGPU_CONFIG names the file. Raises SettingsError, which names the key and its
    source.
    """
    file = flags.get("config") or environ.get("VGPU_CONFIG") or ""
    values = read_file(Path(file)) if file else {}
    settings = _convert(values, kind, f"settings file {file}")
    for setting in settings_of(kind):
        for source, text in (
            (setting.variable, environ.get(setting.variable)),
            (setting.flag, flags.get(setting.key)),
        ):
            if text is not None:
                _put(values, setting.path, _parse(text, setting, source))
                settings = _convert(values, kind, source)
    for problem in _problems(settings):
        raise SettingsError(problem)
    return settings


def _problems(settings: NodeSettings | ClusterSettings | JobsSettings | UiSettings) -> Iterator[str]:
    match settings:
        case NodeSettings():
            return checks.node(settings)
        case ClusterSettings():
            return checks.cluster(settings)
        case JobsSettings():
            return checks.jobs(settings)
    return checks.ui(settings)


def require(value: str, key: str) -> None:
    """Raise SettingsError if `value`, the value of the setting `key`, is empty. The setting has no usable default."""
    if not value:
        setting = next(each for kind in KINDS for each in settings_of(kind) if each.key == key)
        raise SettingsError(f"{key} is missing: give {setting.flag} or {setting.variable}")


def read_file(file: Path) -> dict[str, Any]:
    """Returns the settings in a file, by key, without the key `version` of the file's format. Raises SettingsError."""
    try:
        values = _yaml(file.read_text(encoding="utf-8"), f"settings file {file}")
    except OSError as error:
        raise SettingsError(f"settings file {file}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"settings file {file}: not YAML: {error}") from None
    if not isinstance(values, dict):
        raise SettingsError(f"settings file {file}: expected `key: value` lines")
    version = values.pop("version", None)
    if version != VERSION:
        raise SettingsError(f"settings file {file}: write `version: {VERSION}` (found {version!r})")
    return values


def _hint(setting: Setting) -> str:
    text = f"{setting.description}, {setting.example}" if setting.example else setting.description
    return f"{text} (default: {setting.default})" if setting.default else text


def _parse(text: str, setting: Setting, source: str) -> object:
    if setting.type is str:
        return text
    value = _yaml(text, source)
    if not isinstance(value, list | dict) and setting.example:
        raise SettingsError(f"{source}: {text!r}: write it {setting.example}")
    return value


class _UniqueKeys(yaml.SafeLoader):
    """YAML in which a key that is written twice is an error, as its specification says."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Returns the mapping that a YAML node describes. Raises MarkedYAMLError if a key is written twice."""
        seen = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"{key.value} is written twice", problem_mark=key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _yaml(text: str, source: str) -> Any:
    try:
        return yaml.load(text, _UniqueKeys)  # noqa: S506 - it is a SafeLoader
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise SettingsError(f"{source}: not YAML: {line}{error.problem}") from None
    except yaml.YAMLError as error:
        raise SettingsError(f"{source}: not YAML: {error}") from None


def _put(values: dict[str, Any], path: Sequence[str], value: object) -> None:
    for part in path[:-1]:
        values = values.setdefault(part, {})
    values[path[-1]] = value


def _convert(values: Mapping[str, Any], kind: type[Settings], source: str) -> Settings:
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise SettingsError(f"{source}: {_problem(str(error), kind)}") from None


def _problem(text: str, kind: type[Settings]) -> str:
    """Returns the text of a msgspec.ValidationError for people: the key first, then the problem.

    If the setting may have only some values, or the key is unknown, the text lists the allowed ones.
    """
    what, _, where = text.partition(" - at ")
    key = where.strip("`").removeprefix("$").removeprefix(".")
    known = {setting.key: setting for setting in settings_of(kind)}
    if "unknown field" in what:
        return f"{what}{f' in {key}' if key else ''}. The settings are: {', '.join(known)}"
    if "enum" in what and key in known:
        what = (
            what.replace("Invalid enum value", "unknown value") + f": write {' or '.join(known[key].choices)}"
        )
    what = re.sub(r"`(\w+)`", lambda name: _KINDS.get(name[1], name[0]), what)
    what = re.sub(
        r"^Expected (.*?)(?:, got (.*))?$", lambda m: f"write {m[1]}{f', not {m[2]}' if m[2] else ''}", what
    )
    return f"{key}: {what}" if key else what
