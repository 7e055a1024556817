"""Settings of some nodes only: entries of a file change settings of `vgpu node` on nodes with certain labels.

    version: v1
    nodes:
    - labels: {pool: display}
      excludeCards: ["0000:03:00.0"]
    - labels: {kubernetes.io/hostname: gpu-7}
      enforcement: {"1d94": observe}

If several entries match a node, a later one overrides the earlier ones. The agent reads the file when it starts, and
keeps the settings of its node in its state folder. It uses the kept settings if it finds an error in the file later, or
cannot read the node's labels, so that no excluded card is offered because of a typing error. When the file gives the
node other settings, the agent ends, and the kubelet starts it again. This may happen soon after a start: a pod may
start with an old version of the ConfigMap, which the kubelet replaces within two minutes.
"""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
from msgspec import UNSET, UnsetType

from device_plugin.core.enforcement import Enforcement
from device_plugin.wiring import settings_checks
from device_plugin.wiring.setting_sources import read_file
from device_plugin.wiring.settings import NodeSettings, SettingsError

log = logging.getLogger(__name__)

KEPT = "node-settings.json"
# Seconds between two looks at the file.
LOOK_SECONDS = 10.0

Labels = Callable[[], Mapping[str, str] | None]
"""Returns the labels of the node; None if the node cannot be read."""


class Changed(msgspec.Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """The settings that an entry of the file may change on a node."""

    exclude_cards: list[str] | UnsetType = UNSET
    enforcement: dict[str, Enforcement] | UnsetType = UNSET

    def over(self, settings: NodeSettings) -> NodeSettings:
        """Returns a copy of the settings in which the values of this entry replace the general ones."""
        return msgspec.structs.replace(settings, **self.given())

    def given(self) -> dict[str, object]:
        """Returns the settings that the entry contains, by the names of their fields."""
        values = ((name, getattr(self, name)) for name in Changed.__struct_fields__)
        return {name: value for name, value in values if value is not UNSET}


class Entry(Changed, frozen=True, kw_only=True):
    """An entry of the file: the changed settings on the nodes that have all of `labels`."""

    labels: dict[str, str]


class NodesFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The content of nodesFile, without its version."""

    nodes: list[Entry]


class OwnSettings:
    """The settings of this node, as nodesFile gave them when the agent started.

    `problem` says what was wrong with the file; empty if nothing. `general` are the settings of all nodes. Raises
    OSError if the settings cannot be kept.
    """

    def __init__(self, general: NodeSettings, labels: Labels) -> None:
        self._general = general
        self._labels = labels
        contents = _contents(general)
        found = labels() if general.nodes_file else None
        # Without labels the file was not applied, and counts as unseen.
        self._seen = None if found is None else contents
        self.settings, self.problem = applied(general, found)

    def outdated(self) -> bool:
        """True if the file gives the node other settings now, or the file's problem is solved.

        A new problem is logged once.
        """
        contents = _contents(self._general)
        labels = self._labels() if contents != self._seen else None
        if labels is None:
            return False
        try:
            settings, problem = applied(self._general, labels)
        except OSError as error:
            log.warning("cannot use %s: %s (stateDir)", error.filename, error.strerror)
            return False
        self._seen = contents
        if problem:
            log.warning("%s", problem)
            return False
        return settings != self.settings or self.problem != ""


def applied(settings: NodeSettings, labels: Mapping[str, str] | None) -> tuple[NodeSettings, str]:
    """Returns the settings of the node with these labels, and the problem of the file as text; empty if there is none.

    The changes that the file gives the node are applied and kept. If the file has a problem, or the node cannot be read
    (`labels` is None), the changes that were kept last are applied. Without a file, kept changes are removed. Raises
    OSError.
    """
    kept = Path(settings.state_dir) / KEPT
    file = Path(settings.nodes_file)
    if not settings.nodes_file or not file.exists():
        kept.unlink(missing_ok=True)
        return settings, ""
    problem = ""
    if labels is not None:
        try:
            changed = _changed(file, labels)
            found = changed.over(settings)
            for wrong in settings_checks.node(found):
                raise SettingsError(f"settings file {file}: {wrong}")
        except SettingsError as error:
            problem = f"{error}. Until that is corrected, the earlier settings stay"
        else:
            _keep(changed, kept)
            return found, ""
    return _kept(kept).over(settings), problem


def _contents(settings: NodeSettings) -> bytes | None:
    """Returns the bytes of the file; None if there is none, or it cannot be read."""
    try:
        return Path(settings.nodes_file).read_bytes() if settings.nodes_file else None
    except OSError:
        return None


def _changed(file: Path, labels: Mapping[str, str]) -> Changed:
    """Returns the file's settings for a node with these labels. Raises SettingsError."""
    try:
        entries = msgspec.convert(read_file(file), NodesFile).nodes
    except msgspec.ValidationError as error:
        raise SettingsError(f"settings file {file}: {error}") from None
    made = Changed()
    for number, entry in enumerate(entries):
        if not entry.labels:
            raise SettingsError(
                f"settings file {file}: nodes[{number}] has no labels: write those of its nodes"
            )
        if entry.labels.items() <= labels.items():
            made = msgspec.structs.replace(made, **entry.given())
    return made


def _kept(kept: Path) -> Changed:
    try:
        return msgspec.json.decode(kept.read_bytes(), type=Changed)
    except (OSError, msgspec.DecodeError):
        return Changed()


def _keep(changed: Changed, kept: Path) -> None:
    """Write the settings to the file `kept`, by a rename, so that the file is never half written."""
    if changed != _kept(kept):
        kept.parent.mkdir(parents=True, exist_ok=True)
        fresh = kept.with_suffix(".new")
        fresh.write_bytes(msgspec.json.encode(changed))
        fresh.rename(kept)
