"""Reads a kubeconfig as kubectl does: one or more files, with a token, a certificate or a credential plugin.

The format is https://kubernetes.io/docs/reference/config-api/kubeconfig.v1. The Python library `kubernetes` is used for
an auth-provider only, which the format calls deprecated: to import it takes 0.65 s of CPU, ten times as long as this
module needs.
"""

import base64
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from device_plugin.adapters.kube.credential_plugin import CredentialPlugin
from device_plugin.adapters.kube.endpoint import Endpoint, EndpointError, api_address, bearer, is_host, nobody
from device_plugin.adapters.kube.secret_files import secret_file
from device_plugin.adapters.yaml_text import MOST_CHARACTERS, NotYamlError, parse
from device_plugin.core.printable import one_line

log = logging.getLogger(__name__)

Entry = Mapping[str, Any]
# Most contexts that an error names.
MOST_CONTEXTS = 16
# Lists of the file, and the key of an item that holds its content.
_LISTS = {"contexts": "context", "clusters": "cluster", "users": "user"}
# Keys that are refused: without them, requests would go to another server or act in another user's name.
_UNSUPPORTED = {
    "proxy-url": "run `kubectl proxy`, and name its address in place of the server",
    "as-uid": "write --as and --as-group",
    "as-user-extra": "write --as and --as-group",
}
# Keys that name files, relative to the folder of the kubeconfig.
_FILES = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
_AGENT = ("client-certificate", "client-key")


@dataclass(frozen=True, slots=True)
class KubeContext:
    """A context of a kubeconfig: its cluster, its user and its namespace.

    Paths in `cluster` and `user` are absolute. `path` is the path of the kubeconfig. `user_folder` is the folder of the
    file that has the user.
    """

    path: str
    cluster: Entry
    user: Entry
    namespace: str
    user_folder: Path

    def endpoint(self) -> Endpoint:
        """Returns the endpoint that the context names. Runs a credential plugin. Raises EndpointError."""
        written = {**self.cluster, **self.user}
        if unsupported := [each for each in _UNSUPPORTED if written.get(each)]:
            raise EndpointError(
                f"kubeconfig {self.path}: {unsupported[0]} is not supported: {_UNSUPPORTED[unsupported[0]]}"
            )
        server = self._text(self.cluster, "server") or ""
        try:
            url = api_address(server)
        except EndpointError as error:
            raise EndpointError(f"kubeconfig {self.path}: server: {error}") from None
        verified = self.cluster.get("insecure-skip-tls-verify") is not True
        if not verified:
            log.warning(
                "kubeconfig %s: insecure-skip-tls-verify: nothing checks which server answers at %s",
                self.path,
                url,
            )
        name = self._text(self.cluster, "tls-server-name")
        if name and not is_host(name):
            raise EndpointError(f"kubeconfig {self.path}: tls-server-name: {name!r} is no name of a host")
        authorization, cert, key = self._credentials(url)
        made = Endpoint(
            url, authorization, self._file(self.cluster, "certificate-authority"), cert, key, name, verified
        )
        groups = self.user.get("as-groups") or ()
        if not isinstance(groups, list | tuple):
            raise EndpointError(f"kubeconfig {self.path}: as-groups is no list")
        return made.impersonating(self._text(self.user, "as") or "", [str(each) for each in groups])

    def _credentials(self, url: str) -> tuple[Callable[[], str | None], str | None, str | None]:
        """Returns a function that returns the Authorization header, and the files of the client's certificate and key.

        A file is None if the context names none. Runs a credential plugin. Raises EndpointError.
        """
        cert, key = (self._file(self.user, name) for name in _AGENT)
        if file := self._text(self.user, "tokenFile"):
            return bearer(Path(file)), cert, key
        if token := self._text(self.user, "token"):
            return _constant(f"Bearer {token}"), cert, key
        if name := self._text(self.user, "username"):
            words = f"{name}:{self._text(self.user, 'password') or ''}"
            return _constant(f"Basic {base64.b64encode(words.encode()).decode()}"), cert, key
        if (plugin := self.user.get("exec")) is not None:
            made = CredentialPlugin(plugin, self.path, self.user_folder, self._cluster_info(url))
            return made.authorization, cert or made.cert, key or made.key
        if "auth-provider" in self.user:
            return _of_library(self.path, self.user), cert, key
        return nobody, cert, key

    def _cluster_info(self, url: str) -> Entry:
        """Returns the description of the cluster for a credential plugin."""
        authority = self._file(self.cluster, "certificate-authority")
        data = base64.b64encode(_content(self.path, authority)).decode() if authority else None
        extensions = {
            str(each.get("name")): each.get("extension")
            for each in _entries(self.cluster.get("extensions"))
        }  # fmt: skip
        told = {
            "server": url, "certificate-authority-data": data,
            "tls-server-name": self.cluster.get("tls-server-name"),
            "insecure-skip-tls-verify": self.cluster.get("insecure-skip-tls-verify"),
            "config": extensions.get("client.authentication.k8s.io/exec"),
        }  # fmt: skip
        return {key: value for key, value in told.items() if value}

    def _text(self, entry: Entry, key: str) -> str | None:
        """Returns the text that `entry` has under `key`; None if it is empty or missing.

        Raises EndpointError if the value is not one line of text.
        """
        value = entry.get(key)
        if value in (None, ""):
            return None
        if not isinstance(value, str) or not value.isprintable():
            raise EndpointError(f"kubeconfig {self.path}: {key}: write one line of text")
        return value

    def _file(self, entry: Entry, key: str) -> str | None:
        """Returns the file that `entry` names by `key`, or a temporary file with the content of `key`-data.

        None if the entry has neither. Raises EndpointError.
        """
        if not (data := entry.get(f"{key}-data")):
            return self._text(entry, key)
        try:
            # kubectl ignores line breaks in the data.
            return secret_file(base64.b64decode("".join(str(data).split()), validate=True))
        except ValueError as error:
            raise EndpointError(f"kubeconfig {self.path}: {key}-data is not base64: {error}") from None


def read(path: str, context: str = "") -> KubeContext:
    """Returns a context of a kubeconfig, by default its current one. `path` may name several files, with colons.

    Raises EndpointError.
    """
    merged = _Merged(path)
    names = ", ".join([*merged.lists["contexts"]][:MOST_CONTEXTS])
    if not (name := context or merged.current):
        if not names:
            raise EndpointError(f"kubeconfig {path} has no context")
        raise EndpointError(f"kubeconfig {path} has no current context: name one with --context: {names}")
    if name not in merged.lists["contexts"]:
        raise EndpointError(
            f"kubeconfig {path}: there is no context {name}: its contexts are {names or 'none'}"
        )
    asked, _ = merged.entry("contexts", name)
    cluster, _ = merged.entry("clusters", str(asked.get("cluster") or ""))
    # A context without a user is for a server that asks for no credentials.
    user, folder = merged.entry("users", str(asked["user"])) if asked.get("user") else ({}, Path())
    return KubeContext(path, cluster, user, str(asked.get("namespace") or "default"), folder)


def context_names(path: str) -> Sequence[str]:
    """Returns the names of the contexts of a kubeconfig. Raises EndpointError."""
    return [*_Merged(path).lists["contexts"]]


class _Merged:
    """Merges the files of a kubeconfig. The first entry of each name counts, and the first current context."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.current = ""
        self.lists: dict[str, dict[str, tuple[Any, Path]]] = {name: {} for name in _LISTS}
        files = [Path(part) for part in path.split(os.pathsep) if part]
        # kubectl ignores missing files among several.
        there = [file for file in files if _exists(file)]
        if not there:
            raise EndpointError(f"kubeconfig {self.path} does not exist: name another one with --kubeconfig")
        for file in there:
            whole = _read(file)
            for name, content in _LISTS.items():
                for item in _items(file, whole, name):
                    self.lists[name].setdefault(
                        str(item["name"]), (item.get(content), file.absolute().parent)
                    )
            self.current = self.current or str(whole.get("current-context") or "")

    def entry(self, kind: str, name: str) -> tuple[Entry, Path]:
        """Returns the content of an entry, in which paths are absolute, and the folder of its file.

        Raises EndpointError if there is no such entry.
        """
        found, folder = self.lists[kind].get(name, (None, Path()))
        if not isinstance(found, dict):
            raise EndpointError(f"kubeconfig {self.path}: {kind} has no {_LISTS[kind]} named {name!r}")
        paths = {
            key: str(folder / found[key]) for key in _FILES if isinstance(found.get(key), str) and found[key]
        }
        return {**found, **paths}, folder


def _exists(file: Path) -> bool:
    try:
        file.stat()
    except FileNotFoundError:
        return False
    except (OSError, ValueError):  # reported when the file is read
        return True
    return True


def _content(path: str, file: str | Path) -> bytes:
    """Returns the content of a file, MOST_CHARACTERS + 1 bytes at most. Raises EndpointError, which names `path`."""
    try:
        with Path(file).open("rb") as opened:
            return opened.read(MOST_CHARACTERS + 1)
    except (OSError, ValueError) as error:
        raise EndpointError(
            f"kubeconfig {path}: {file} cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from None


def _read(file: Path) -> Entry:
    """Returns the mapping that a file holds; empty for an empty file. Raises EndpointError."""
    try:
        with file.open("rb") as opened:
            content = opened.read(MOST_CHARACTERS + 1)
    except (OSError, ValueError) as error:
        raise EndpointError(
            f"kubeconfig {file} cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from None
    if len(content) > MOST_CHARACTERS:
        raise EndpointError(
            f"kubeconfig {file} is no kubeconfig: it is longer than {MOST_CHARACTERS} characters"
        )
    try:
        whole = parse(content.decode())
    except UnicodeDecodeError:
        raise EndpointError(f"kubeconfig {file} is not YAML: it is not text") from None
    except NotYamlError as error:
        raise EndpointError(f"kubeconfig {file} is not YAML: {error}") from None
    if not isinstance(whole, dict | None):
        raise EndpointError(f"kubeconfig {file} is no kubeconfig: it has no contexts, clusters and users")
    return whole or {}


def _items(file: Path, whole: Entry, name: str) -> Sequence[Entry]:
    """Returns the items of the list `name`. Raises EndpointError if it is not a list of entries with names."""
    listed = whole.get(name) or []
    found = _entries(listed)
    if not isinstance(listed, list) or len(found) < len(listed) or not all("name" in each for each in found):
        raise EndpointError(f"kubeconfig {file} is no kubeconfig: {name} is no list of entries with names")
    return found


def _entries(listed: object) -> Sequence[Entry]:
    """Returns the mappings in a list; nothing if the value is not a list."""
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


def _constant(header: str) -> Callable[[], str]:
    return lambda: header


def _of_library(path: str, user: Entry) -> Callable[[], str | None]:
    """Returns a function that returns the Authorization header of a user with an auth-provider.

    The package `kubernetes` makes the header. This function and the returned function raise EndpointError.
    """
    name = str((user["auth-provider"] or {}).get("name")) if isinstance(user["auth-provider"], dict) else ""
    try:
        from kubernetes import config
        from kubernetes.client import Configuration
    except ImportError:
        raise EndpointError(
            f"kubeconfig {path}: auth-provider {name}: run pip install '.[cli]' in a checkout of vgpu"
        ) from None
    # The library needs a cluster in its configuration, which it never calls.
    whole = {
        "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1"}}], "users": [{"name": "c", "user": user}],
    }  # fmt: skip
    loaded = Configuration()

    def header() -> str:
        try:
            if not loaded.api_key:
                config.load_kube_config_from_dict(  # type: ignore[no-untyped-call]
                    whole, client_configuration=loaded, persist_config=False
                )
            found = loaded.get_api_key_with_prefix("BearerToken", alias="authorization")
        except Exception as error:
            why = one_line(str(error)) or type(error).__name__
            raise EndpointError(f"kubeconfig {path}: auth-provider {name}: {why}") from error
        if not found:
            raise EndpointError(f"kubeconfig {path}: auth-provider {name} gives no token: log in again")
        return str(found)

    header()
    return header
