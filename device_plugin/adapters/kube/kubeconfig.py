"""Plain kubeconfigs, read without the library for them: importing that takes 0.2 s of CPU, as long as most commands.

A kubeconfig is plain if it is one file whose context names a server with its authority, and a token or a certificate.
Whatever else one may hold is left to the library: several files, programs that give credentials, proxies.
"""

import atexit
import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkstemp
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import yaml

from device_plugin.adapters.kube.endpoint import Endpoint

_CLUSTER = {"server", "certificate-authority", "certificate-authority-data", "tls-server-name", "extensions"}
_USER = {"token", "client-certificate", "client-certificate-data", "client-key", "client-key-data"}
_CONTEXT = {"cluster", "user", "namespace", "extensions"}
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PlainKubeconfig:
    """A context of a plain kubeconfig. `cluster` and `user` are its entries; relative paths begin at `folder`."""

    folder: Path
    cluster: Entry
    user: Entry
    namespace: str

    def endpoint(self) -> Endpoint:
        """The endpoint that it names. Raises ValueError for data that is not base64."""
        header = f"Bearer {token}" if (token := self.user.get("token")) else None
        return Endpoint(
            str(self.cluster["server"]).rstrip("/"),
            lambda: header,
            self._file(self.cluster, "certificate-authority"),
            self._file(self.user, "client-certificate"),
            self._file(self.user, "client-key"),
            self.cluster.get("tls-server-name") or None,
        )

    def _file(self, entry: Entry, key: str) -> str | None:
        """The file that `entry` names by `key`, or a temporary one with what it has by `key`-data."""
        if data := entry.get(f"{key}-data"):
            try:
                return _temporary(base64.b64decode(data, validate=True))
            except binascii.Error as error:
                raise ValueError(f"{key}-data: {error}") from None
        name = entry.get(key)
        return str(self.folder / name) if name else None


def read_plain(path: str, context: str = "") -> PlainKubeconfig | None:
    """The context of a plain kubeconfig, else its current one; None for every other kubeconfig, sound or not."""
    if os.pathsep in path:
        return None
    try:
        whole = yaml.load(Path(path).read_text(encoding="utf-8"), Loader=_LOADER)  # noqa: S506 - a safe loader
        asked = _entry(whole["contexts"], "context", context or whole["current-context"])
        cluster, user = (_entry(whole[f"{of}s"], of, asked[of]) for of in ("cluster", "user"))
        urlsplit(cluster["server"]).port  # noqa: B018 - raises ValueError for what is no port
    except (OSError, UnicodeDecodeError, yaml.YAMLError, LookupError, TypeError, ValueError, AttributeError):
        return None
    for entry, known in ((asked, _CONTEXT), (cluster, _CLUSTER), (user, _USER)):
        if entry.keys() - known:
            return None
    return PlainKubeconfig(Path(path).parent, cluster, user, str(asked.get("namespace") or "default"))


class ContextNames(NamedTuple):
    """The contexts of a kubeconfig, and its current one; empty if it names none."""

    names: Sequence[str]
    current: str


def context_names(path: str) -> ContextNames | None:
    """The contexts of all files of a kubeconfig; None if one of them is no kubeconfig, or none is there."""
    found: list[ContextNames] = []
    for file in filter(None, path.split(os.pathsep)):
        if not Path(file).exists():
            continue
        try:
            whole = yaml.load(Path(file).read_text(encoding="utf-8"), Loader=_LOADER) or {}  # noqa: S506 - a safe loader
            names = [str(each["name"]) for each in whole.get("contexts") or ()]
            found.append(ContextNames(names, str(whole.get("current-context") or "")))
        except (
            OSError,
            UnicodeDecodeError,
            yaml.YAMLError,
            LookupError,
            TypeError,
            ValueError,
            AttributeError,
        ):
            return None
    if not found:
        return None
    current = next((each.current for each in found if each.current), "")
    return ContextNames([name for each in found for name in each.names], current)


def _entry(entries: Sequence[Entry], kind: str, name: str) -> Entry:
    """What the first of the entries of this name holds. Raises LookupError, TypeError."""
    found = next((each[kind] for each in entries if each["name"] == name), None)
    if not isinstance(found, dict):
        raise LookupError(name)
    return found


def _temporary(content: bytes) -> str:
    """A file with this content that only its owner can read, until the program ends."""
    handle, name = mkstemp(prefix="vgpu-")
    atexit.register(Path(name).unlink, missing_ok=True)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    return name
