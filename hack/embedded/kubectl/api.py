"""A client of the API server that a kubeconfig names; the kubeconfig may be JSON or YAML."""

import json
import os
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

SECONDS = 60.0
Object = dict[str, Any]


class KubectlError(Exception):
    """A command failed; the text is the message that kubectl would print."""


class NotFoundError(KubectlError):
    """The object does not exist."""


class Resource(NamedTuple):
    """A kind of object: its group, its plural, its kind, and other words for it."""

    group: str
    plural: str
    kind: str
    words: tuple[str, ...] = ()
    namespaced: bool = True

    @property
    def singular(self) -> str:
        """The name of the kind in lower case, with its group."""
        return f"{self.kind.lower()}.{self.group}" if self.group else self.kind.lower()

    def path(self, namespace: str, name: str = "", subresource: str = "") -> str:
        """The URL path of all objects, of one object, or of a subresource of it."""
        root = f"/apis/{self.group}/v1" if self.group else "/api/v1"
        inside = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        parts = [self.plural, *filter(None, (name, subresource))]
        return f"{root}{inside}/{'/'.join(parts)}"


RESOURCES = (
    Resource("", "pods", "Pod", ("po",)),
    Resource("", "nodes", "Node", ("no",), namespaced=False),
    Resource("", "namespaces", "Namespace", ("ns",), namespaced=False),
    Resource("", "configmaps", "ConfigMap", ("cm",)),
    Resource("", "events", "Event", ("ev",)),
    Resource("", "resourcequotas", "ResourceQuota", ("quota",)),
    Resource("batch", "jobs", "Job"),
    Resource("apps", "deployments", "Deployment", ("deploy",)),
    Resource("apps", "daemonsets", "DaemonSet", ("ds",)),
    Resource("coordination.k8s.io", "leases", "Lease"),
    Resource("scheduling.k8s.io", "priorityclasses", "PriorityClass", ("pc",), namespaced=False),
)
PODS = RESOURCES[0]
_BY_WORD = {
    word: each
    for each in RESOURCES
    for word in (each.plural, each.kind.lower(), each.singular, f"{each.plural}.{each.group}", *each.words)
}


def resource(word: str) -> Resource:
    """The kind with this name, such as `pods`, `pod` or `po`. Raises KubectlError."""
    found = _BY_WORD.get(word.lower())
    if found is None:
        raise KubectlError(f'error: the server doesn\'t have a resource type "{word}"')
    return found


class Api:
    """A client of an API server, as the kubeconfig's user; `namespace` is the namespace of the commands."""

    def __init__(self, server: str, headers: Mapping[str, str], namespace: str) -> None:
        self.headers = headers
        self.namespace = namespace
        self._server = urlsplit(server)

    @classmethod
    def of(cls, kubeconfig: str, context: str, namespace: str, headers: Mapping[str, str]) -> "Api":
        """A client for a context of the kubeconfig, by default the current context. Raises KubectlError."""
        path = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
        try:
            config = documents(Path(path).expanduser().read_text(encoding="utf-8"))[0]
            chosen = _named(config["contexts"], context or config["current-context"])["context"]
            server = _named(config["clusters"], chosen["cluster"])["cluster"]["server"]
            users = [
                each["user"] or {} for each in config.get("users") or () if each["name"] == chosen["user"]
            ]
        except OSError as error:
            raise KubectlError(f"error: {path}: {error.strerror}") from error
        except (LookupError, TypeError) as error:
            raise KubectlError(
                f"error: {path} is no kubeconfig of the one-machine cluster: {error!r}"
            ) from error
        token = users[0].get("token") if users else None
        said = {"Authorization": f"Bearer {token}"} if token else {}
        return cls(server, {**said, **headers}, namespace or chosen.get("namespace") or "default")

    def connection(self) -> HTTPConnection:
        """A new connection to the API server."""
        return HTTPConnection(self._server.hostname or "", self._server.port, timeout=SECONDS)

    def text(self, path: str) -> str:
        """The body of the answer to a GET. Raises KubectlError."""
        return self._asked("GET", path, None, {}).decode(errors="replace")

    def get(self, path: str, **query: str) -> Object:
        """The object or list at a path. Raises KubectlError."""
        asked = urlencode({name: value for name, value in query.items() if value})
        return self._object("GET", f"{path}?{asked}" if asked else path)

    def post(self, path: str, body: Object) -> Object:
        """Create an object; returns it as it was stored. Raises KubectlError."""
        return self._object("POST", path, body)

    def patch(self, path: str, change: Object) -> Object:
        """Apply a merge patch to an object; returns the object after it. Raises KubectlError."""
        return self._object("PATCH", path, change, {"Content-Type": "application/merge-patch+json"})

    def delete(self, path: str, options: Object) -> Object:
        """Delete an object; returns the answer. Raises KubectlError."""
        return self._object("DELETE", path, options)

    def _object(
        self, method: str, path: str, body: Object | None = None, headers: Mapping[str, str] | None = None
    ) -> Object:
        found: Object = json.loads(self._asked(method, path, body, headers or {}))
        return found

    def _asked(self, method: str, path: str, body: Object | None, headers: Mapping[str, str]) -> bytes:
        connection = self.connection()
        content = None if body is None else json.dumps(body)
        try:
            connection.request(
                method, path, content, {"Content-Type": "application/json", **self.headers, **headers}
            )
            answer = connection.getresponse()
            text = answer.read()
        except OSError as error:
            where = self._server.netloc
            raise KubectlError(
                f"The connection to the server {where} was refused - did you specify the right host or port?"
            ) from error
        finally:
            connection.close()
        if answer.status >= 400:
            raise refusal(text)
        return text


def refusal(text: bytes) -> KubectlError:
    """The error in an API server's answer."""
    try:
        status = json.loads(text)
        said = f"Error from server ({status['reason']}): {status['message']}"
    except (ValueError, LookupError, TypeError):
        return KubectlError(f"Error from server: {text.decode(errors='replace').strip()}")
    return (NotFoundError if status["reason"] == "NotFound" else KubectlError)(said)


def documents(text: str) -> Sequence[Any]:
    """The documents of a text in JSON or YAML. Raises KubectlError."""
    try:
        return [json.loads(text)]
    except ValueError:
        import yaml
    try:
        return [each for each in yaml.safe_load_all(text) if each is not None]
    except yaml.YAMLError as error:
        raise KubectlError(f"error: error parsing YAML: {error}") from error


def _named(entries: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    """The entry of this name. Raises LookupError."""
    for each in entries:
        if each["name"] == name:
            return each
    raise LookupError(name)
