"""The settings of both services: a flag beats an environment variable, which beats the file, which beats the default.

    # vgpu node --config FILE
    version: v1
    nodeName: gpu-1
    memUnitMiB: 512

The environment variable of `nodeName` is VGPU_NODE_NAME and its flag --node-name; settings of the API server are
VGPU_KUBE_SERVER and --kube-server. Unknown keys are refused: a silent typo is how a cluster gets misconfigured.
"""

import argparse
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

import msgspec
import yaml
from msgspec import Meta

from device_plugin.core.app_types import COUNT, DEFAULT_WEIGHTS, SHARE, TYPES, Scoring, Weights
from device_plugin.core.errors import VgpuError
from device_plugin.core.requests import DEFAULT_PREFIXES
from device_plugin.wiring import settings_checks as checks

VERSION = "v1"


class SettingsError(VgpuError):
    """A setting is unknown, malformed or missing; the text says which, and where it came from."""


class KubeSettings(msgspec.Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """How to reach the API server; all empty means: as a pod, by its service account."""

    server: Annotated[str, Meta(description="URL of the API server")] = ""
    token_file: Annotated[str, Meta(description="file that holds a bearer token")] = ""
    ca_file: Annotated[
        str, Meta(description="file of the authority that signed the server's certificate")
    ] = ""
    kubeconfig: Annotated[str, Meta(description="kubeconfig file to take all of this from")] = ""


class NodeSettings(msgspec.Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """Settings of `vgpu node`."""

    node_name: Annotated[str, Meta(description="name of this node, as Kubernetes knows it")] = ""
    root: Annotated[str, Meta(description="folder that holds the host's sys/ and dev/")] = "/"
    kubelet_dir: Annotated[str, Meta(description="the kubelet's folder")] = "/var/lib/kubelet"
    cdi_dir: Annotated[str, Meta(description="folder where the runtime reads CDI specs")] = "/var/run/cdi"
    state_dir: Annotated[str, Meta(description="folder for slices and records")] = "/var/lib/vgpu"
    cgroup_root: Annotated[str, Meta(description="the host's cgroup tree")] = "/sys/fs/cgroup"
    proc_root: Annotated[str, Meta(description="the host's /proc")] = "/proc"
    process_groups: Annotated[str, Meta(description="process groups instead of cgroups (demo)")] = ""
    prefixes: Annotated[
        dict[str, str],
        Meta(description="PCI vendor id: resource prefix", examples=[{"1d94": "hygon.com/dcu"}]),
    ] = msgspec.field(default_factory=lambda: {"1d94": "hygon.com/dcu"})
    mem_unit_mib: Annotated[int, Meta(description="MiB of one memory unit", ge=1)] = msgspec.field(
        default=1024, name="memUnitMiB"
    )
    exclude_cards: Annotated[
        list[str], Meta(description="uuids or PCI ids of cards to leave alone", examples=[["0000:03:00.0"]])
    ] = []
    library: Annotated[str, Meta(description="path of libvgpu.so; empty: the one built here")] = ""
    simulated: Annotated[str, Meta(description="folder of simulated cards (demo, tests)")] = ""
    http_listen: Annotated[str, Meta(description="address of /healthz, /readyz, /metrics")] = "0.0.0.0:9400"
    drain_seconds: Annotated[float, Meta(description="seconds to go on serving after SIGTERM", ge=0)] = 5.0
    kube: KubeSettings = KubeSettings()


class NodeScoreSettings(msgspec.Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """The placement policy `node-score`: weights by application type, and where the loads of cards come from."""

    gpu: Annotated[
        dict[str, float],
        Meta(description="weights of app-type gpu", examples=[asdict(DEFAULT_WEIGHTS["gpu"])]),
    ] = msgspec.field(default_factory=lambda: asdict(DEFAULT_WEIGHTS["gpu"]))
    cpu: Annotated[
        dict[str, float],
        Meta(description="weights of app-type cpu", examples=[asdict(DEFAULT_WEIGHTS["cpu"])]),
    ] = msgspec.field(default_factory=lambda: asdict(DEFAULT_WEIGHTS["cpu"]))
    memory: Annotated[
        dict[str, float],
        Meta(description="weights of app-type memory", examples=[asdict(DEFAULT_WEIGHTS["memory"])]),
    ] = msgspec.field(default_factory=lambda: asdict(DEFAULT_WEIGHTS["memory"]))
    free: Annotated[
        str, Meta(description="share or count: add free shares of a node, or free cards, CPUs and GiB")
    ] = SHARE
    most_memory: Annotated[
        float,
        Meta(
            description="a card with a greater share of its memory granted or in use is not free", gt=0, le=1
        ),
    ] = 0.9
    most_load: Annotated[
        float,
        Meta(
            description="a card with a greater share of its core groups granted, or of its time busy, is not free",
            gt=0,
            le=1,
        ),
    ] = 0.9
    agent_namespace: Annotated[str, Meta(description="namespace of the node agents")] = "vgpu-system"
    ask_seconds: Annotated[
        float, Meta(description="seconds between two questions to one agent for its cards' loads", gt=0)
    ] = 15.0
    asks_per_second: Annotated[
        float, Meta(description="questions to all agents together in a second, at most", gt=0)
    ] = 50.0
    stale_seconds: Annotated[
        float, Meta(description="older loads are forgotten: then only grants count", gt=0)
    ] = 60.0

    def scoring(self) -> Scoring:
        """The same in the words of the core. Raises TypeError for weights that the checks refuse."""
        weights = {name: Weights(**getattr(self, name)) for name in TYPES}
        return Scoring(weights, self.most_memory, self.most_load, self.free == COUNT)


class ClusterSettings(msgspec.Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """Settings of `vgpu cluster`. The replica leads while the Lease's holder is a process of `pod_name`."""

    pod_name: Annotated[
        str, Meta(description="name of this pod: the scheduler beside it holds the Lease")
    ] = ""
    prefixes: Annotated[
        list[str], Meta(description="resource prefixes of all card families", examples=[["hygon.com/dcu"]])
    ] = msgspec.field(default_factory=lambda: list(DEFAULT_PREFIXES))
    scheduler_name: Annotated[str, Meta(description="schedulerName of the pods to place")] = "vgpu-scheduler"
    lease_namespace: Annotated[str, Meta(description="namespace of the scheduler's Lease")] = "vgpu-system"
    lease_name: Annotated[str, Meta(description="name of the scheduler's Lease")] = "vgpu-scheduler"
    extender_listen: Annotated[str, Meta(description="loopback address of /filter, /bind, /explain")] = (
        "127.0.0.1:9401"
    )
    http_listen: Annotated[str, Meta(description="address of /healthz, /readyz, /metrics")] = "0.0.0.0:9402"
    reservation_seconds: Annotated[
        float, Meta(description="a reservation ends after this many seconds without a Binding", gt=0)
    ] = 60.0
    covered_pods: Annotated[
        Literal["report", "delete"],
        Meta(description="pods in which a mount hides the files that limit them: only report, or delete"),
    ] = "report"
    node_score: NodeScoreSettings = msgspec.field(default_factory=NodeScoreSettings)
    kube: KubeSettings = KubeSettings()


Settings = TypeVar("Settings", NodeSettings, ClusterSettings)


def add_flags(parser: argparse.ArgumentParser, kind: type[Settings]) -> None:
    """Give `parser` --config and one flag for each setting of `kind`."""
    parser.add_argument("--config", metavar="FILE", help="YAML file of settings (version: v1)")
    for path, field in _leaves(kind):
        parser.add_argument(
            "--" + "-".join(_words(path)), dest=".".join(path), metavar="VALUE", help=_hint(field)
        )


def load(kind: type[Settings], flags: Mapping[str, Any], environ: Mapping[str, str]) -> Settings:
    """Settings of `kind` from parsed `flags` (see add_flags), the environment and the file they name.

    Raises SettingsError with the key and its source.
    """
    file = flags.get("config") or environ.get("VGPU_CONFIG") or ""
    values = _read_file(Path(file)) if file else {}
    settings = _convert(values, kind, f"settings file {file}")
    known = {".".join(path): (path, field) for path, field in _leaves(kind)}
    for dotted, (path, field) in known.items():
        variable = "VGPU_" + "_".join(_words(path)).upper()
        for source, text in (
            (variable, environ.get(variable)),
            (f"--{'-'.join(_words(path))}", flags.get(dotted)),
        ):
            if text is not None:
                _put(values, path, _parse(text, field, source))
                settings = _convert(values, kind, source)
    found = checks.node(settings) if isinstance(settings, NodeSettings) else checks.cluster(settings)
    for problem in found:
        raise SettingsError(problem)
    return settings


def require(value: str, key: str) -> None:
    """Raise SettingsError if the setting `key`, which has no usable default, was not given."""
    if not value:
        words = _words([key])
        raise SettingsError(f"{key} is missing: give --{'-'.join(words)} or VGPU_{'_'.join(words).upper()}")


def _read_file(file: Path) -> dict[str, Any]:
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


def _leaves(kind: type[msgspec.Struct]) -> Iterator[tuple[tuple[str, ...], msgspec.structs.FieldInfo]]:
    for field in msgspec.structs.fields(kind):
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from (((field.encode_name, *path), leaf) for path, leaf in _leaves(field.type))
        else:
            yield (field.encode_name,), field


def _words(path: Sequence[str]) -> list[str]:
    spaced = (re.sub(r"MiB$", "Mib", part) for part in path)
    return [word.lower() for part in spaced for word in re.findall(r"[A-Z]?[a-z0-9]+", part)]


def _hint(field: msgspec.structs.FieldInfo) -> str:
    meta: Meta = get_args(field.type)[1]
    described = f"{meta.description}, {_example(field)}" if meta.examples else f"{meta.description}"
    default = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    shown = default if isinstance(default, str) else json.dumps(default)
    return f"{described} (default: {shown})" if shown else described


def _example(field: msgspec.structs.FieldInfo) -> str:
    examples = get_args(field.type)[1].examples
    return f"as JSON, such as {json.dumps(examples[0])}" if examples else ""


def _parse(text: str, field: msgspec.structs.FieldInfo, source: str) -> object:
    kind = get_args(field.type)[0]
    if kind is str:
        return text
    value = _yaml(text, source)
    if not isinstance(value, list | dict) and _example(field):
        raise SettingsError(f"{source}: {text!r}: write it {_example(field)}")
    return value


class _UniqueKeys(yaml.SafeLoader):
    """YAML in which a key that is written twice is an error, as its specification says."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """The mapping, once its keys are known to differ."""
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
        known = ", ".join(".".join(path) for path, _ in _leaves(kind))
        advice = f". The settings are: {known}" if "unknown field" in str(error) else ""
        raise SettingsError(f"{source}: {error}{advice}") from None
