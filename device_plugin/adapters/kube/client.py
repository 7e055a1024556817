"""Implements `kube.Api`: calls to the API server over reused HTTP connections."""

import copy
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from typing import Any, TypeVar, cast
from urllib.parse import quote, urlencode

import msgspec

from device_plugin.adapters.http.client import LOST, Connection, lost_text
from device_plugin.adapters.kube import decode
from device_plugin.adapters.kube.connections import Connections
from device_plugin.adapters.kube.endpoint import Endpoint, EndpointError
from device_plugin.adapters.kube.pods import Resources
from device_plugin.adapters.kube.structs import DecodeError, Text
from device_plugin.core.contract.claims import Claim
from device_plugin.core.pods import Pod
from device_plugin.kube.api import (
    EVENTS,
    EVERYWHERE,
    PODS,
    Change,
    Kind,
    Listed,
    Metadata,
    Named,
    Object,
    Where,
)
from device_plugin.kube.errors import (
    ApiError,
    ConflictError,
    ExpiredError,
    GoneError,
    UnknownError,
    from_status,
)

log = logging.getLogger(__name__)

TIMEOUT_SECONDS = 3.0
JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
# A server that cannot send metadata alone sends whole objects.
METADATA = "application/json;as={};g=meta.k8s.io;v=v1,application/json"
# Objects of one page of a list. A whole page is in memory, and an object may have 1.5 MiB, its annotations 256 KiB.
PAGE_ITEMS = 100
LIST_TRIES = 3
_CHANGES = frozenset(Change.__members__)
# Most characters that the Event API accepts in a message.
MOST_MESSAGE = 1024
Item = TypeVar("Item")


class KubeClient:
    """A client of one API server, for any thread. `component` is our name in events.

    Decoded pods keep only the limits of the extended `resources`; None keeps all. With `brief_ends`, a pod that a watch
    shows as gone has only its names, node and phase. `metadata_items` is the number of objects in one page of a list of
    metadata. `timeout` is in seconds.
    """

    def __init__(
        self, endpoint: Endpoint, component: str, *,
        timeout: float = TIMEOUT_SECONDS, resources: Resources = None, brief_ends: bool = False,
        metadata_items: int = PAGE_ITEMS,
    ) -> None:  # fmt: skip
        self._endpoint = endpoint
        self._component = component
        self._timeout = timeout
        self._resources = resources
        # Readers of whole watch events in one pass, by the type of their objects: those that come most often.
        self._read_event: Mapping[type[Any], Callable[[bytes], tuple[str, str, Any]]] = {
            Pod: partial(decode.pod_event, resources=resources, brief_ends=brief_ends),
            Claim: decode.claim_event,
        }
        self._metadata_items = metadata_items
        self._connections = Connections(endpoint, timeout)
        # The server's timeout of a Binding is ours: a pod that is still unbound seconds later stays unbound.
        self._limit = urlencode({"timeout": f"{timeout:g}s"})
        self._deadline = math.inf

    def until(self, deadline: float) -> "KubeClient":
        """Returns a copy of this client: each call must be answered before `deadline` on the monotonic clock."""
        made = copy.copy(self)
        made._deadline = deadline
        return made

    def close(self) -> None:
        """Close the connections to the API server."""
        self._connections.close()

    def get(self, kind: Kind[Item], of: Named) -> Item:
        """Returns the object of this name as it is now, not from a cache."""
        return self._decoded(kind, self._request("GET", _object(kind, of), accept=_accept(kind)))

    def list(self, kind: Kind[Item], where: Where = EVERYWHERE) -> Listed[Item]:
        """Returns the objects as a quorum of etcd has them, because the request names no version.

        Objects that cannot be decoded are left out and logged. The server sends one page per request. All pages are of
        one resource version. The server forgets the version after some minutes; then the list begins again. Raises
        ExpiredError if the version is forgotten LIST_TRIES times.
        """
        for _ in range(LIST_TRIES - 1):
            with suppress(ExpiredError):
                return self._list(kind, where)
        return self._list(kind, where)

    def _list(self, kind: Kind[Item], where: Where) -> Listed[Item]:
        """Lists page after page, and returns the objects of all pages.

        Raises ExpiredError if the server forgot the version of the first page.
        """
        found: list[Item] = []
        query = {**_query(where), "limit": str(self._metadata_items if kind.partial else PAGE_ITEMS)}
        while True:
            items, version, rest = self._page(kind, where, query)
            found += items
            if not rest:
                return Listed(found, version)
            query["continue"] = rest

    def _page(
        self, kind: Kind[Item], where: Where, query: Mapping[str, str]
    ) -> tuple[Sequence[Item], str, str]:
        """Returns the objects of a page, its version, and the token for the next page. The page's text is not kept."""
        text = self._request("GET", _folder(kind, where.namespace), query=query, accept=_accept(kind, "List"))
        if kind.item is Metadata:
            with suppress(DecodeError):
                return cast("tuple[Sequence[Item], str, str]", decode.metadata_listed(text))
        try:
            page = decode.listed(text)
        except DecodeError as error:
            raise UnknownError(f"the list of {kind.plural} cannot be read: {error}") from error
        read = [found for item in page.items if (found := self.read(kind, item)) is not None]
        return read, page.version, page.rest

    def read(self, kind: Kind[Item], text: Text) -> Item | None:
        """Returns the decoded object. Returns None, and logs it, if the text is not of this kind."""
        try:
            return decode.read(kind, text, self._resources)
        except DecodeError as error:
            log.warning("one of %s cannot be read and is skipped: %s", kind.plural, error)
            return None

    def event(self, kind: Kind[Item], line: bytes) -> tuple[str, str, Item | None]:
        """Returns type, resource version and object of a watch event; no object for a bookmark or a malformed object.

        Raises DecodeError if the line is no event. If the event carries an error of the server, that error is raised.
        """
        if (read := self._read_event.get(kind.item)) is not None:
            # Not for bookmarks, errors, and objects that are to be logged.
            with suppress(DecodeError):
                found = read(line)
                if found[0] in _CHANGES:
                    return found
        change, text = decode.event(line)
        if change == "ERROR":
            code, reason, message = decode.status(text)
            raise from_status(code, reason, message)
        version = decode.version(text)
        return change, version, self.read(kind, text) if change in _CHANGES else None

    def watch(self, kind: Kind[Any], where: Where, version: str, silence: float) -> Connection:
        """Returns an open watch of changes after `version`, which the caller has to close.

        Reading from it raises one of LOST after `silence` seconds without data.
        """
        query = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": version, **_query(where)}
        target = _target(_folder(kind, where.namespace), query)
        try:
            stream = self._connections.stream(target, self._headers(_accept(kind)), silence)
            if stream.status != 200:
                with closing(stream):
                    raise _error(stream.status, b"".join(stream.body()))
        except LOST as error:
            raise self._unreachable(error) from error
        return stream

    def text(self, path: str, deadline: float = math.inf) -> str:
        """Returns the answer to a GET of `path` as text. The path may lead to a pod through the API server's proxy.

        The whole answer must be there before `deadline` on the monotonic clock. Raises ApiError.
        """
        return self._request("GET", path, accept="*/*", deadline=deadline).decode(errors="replace")

    def create(self, kind: Kind[Item], body: Object, namespace: str = "", *, dry: bool = False) -> Item:
        """Create an object; returns it as stored. With `dry`, admission and quotas are tried, and nothing is stored."""
        query = {"dryRun": "All"} if dry else {}
        made = self._request("POST", _folder(kind, namespace), body, query=query, accept=_accept(kind))
        return self._decoded(kind, made)

    def replace(self, kind: Kind[Item], of: Named, body: Object) -> Item:
        """Write a whole object; returns it as stored."""
        return self._decoded(kind, self._request("PUT", _object(kind, of), body, accept=_accept(kind)))

    def patch(
        self, kind: Kind[Item], of: Named, change: Object, *, subresource: str = "", by_key: bool = False
    ) -> Item:
        """Merge `change` into the object of this UID, or into its `subresource`; returns the object as stored.

        With `by_key`, members of lists are merged by their keys; else a list replaces the old one.
        """
        metadata = dict(change.get("metadata") or {})
        if of.uid:
            metadata["uid"] = of.uid
        path = _object(kind, of) + (f"/{subresource}" if subresource else "")
        path += f"?{self._limit}"
        body = {**change, "metadata": metadata}
        media = STRATEGIC if by_key else MERGE
        return self._decoded(kind, self._request("PATCH", path, body, media, accept=_accept(kind)))

    def delete(self, kind: Kind[Any], of: Named, *, grace_seconds: int | None = None) -> None:
        """Delete the object of this UID; the API server then deletes the objects that it owns."""
        grace = {} if grace_seconds is None else {"gracePeriodSeconds": grace_seconds}
        # Without `propagationPolicy` the pods of a deleted Job would stay.
        kind_of = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        body = {**kind_of, **grace, **_preconditions(of)}
        with _conflict_means_gone():
            self._request("DELETE", _object(kind, of), body)

    def evict(self, pod: Named, *, dry: bool = False) -> None:
        """Evict the pod of this UID if PodDisruptionBudgets allow it; with `dry`, only ask whether they do."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": _preconditions(pod),
        }
        query = {"dryRun": "All"} if dry else {}
        with _conflict_means_gone():
            self._request("POST", f"{_object(PODS, pod)}/eviction", body, query=query)

    def bind(self, pod: Named, node: str, annotations: Mapping[str, str], labels: Mapping[str, str]) -> None:
        """Bind the pod of this UID to a node; the API server stores annotations and labels in the same write.

        The labels are stored only from Kubernetes 1.35 on (KEP-4742).
        """
        kept = {"annotations": dict(annotations)} | ({"labels": dict(labels)} if labels else {})
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid, **kept},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        self._request("POST", f"{_object(PODS, pod)}/binding?{self._limit}", body)

    def post_event(
        self, kind: Kind[Any], of: Named, reason: str, message: str, *, warning: bool = True
    ) -> None:
        """Write an event about an object, in namespace `default` if the object has none, as the kubelet does."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        namespace = of.namespace or "default"
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{of.name}.", "namespace": namespace},
            "involvedObject": {
                "apiVersion": kind.api_version, "kind": kind.name,
                "name": of.name, "namespace": of.namespace, "uid": of.uid,
            },
            "reason": reason,
            "message": message[:MOST_MESSAGE],
            "type": "Warning" if warning else "Normal",
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }  # fmt: skip
        self._request("POST", _folder(EVENTS, namespace), body)

    def _request(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        content: str = JSON,
        query: Mapping[str, str] | None = None,
        accept: str = JSON,
        deadline: float = math.inf,
    ) -> bytearray:
        headers = self._headers(accept)
        if body is not None:
            headers["Content-Type"] = content
        text = None if body is None else msgspec.json.encode(body)
        deadline = min(deadline, self._deadline)
        try:
            status, answer = self._connections.request(method, _target(path, query), headers, text, deadline)
        except LOST as error:
            raise self._unreachable(error) from error
        if status >= 300:
            raise _error(status, answer)
        return answer

    def _decoded(self, kind: Kind[Item], text: Text) -> Item:
        try:
            return decode.read(kind, text, self._resources)
        except DecodeError as error:
            raise UnknownError(f"the API server's answer cannot be read: {error}") from error

    def _headers(self, accept: str) -> dict[str, str]:
        headers = {"Accept": accept, "User-Agent": self._component}
        try:
            authorization = self._endpoint.authorization()
        except EndpointError as error:
            raise UnknownError(str(error)) from error
        if authorization is not None:
            if not (authorization.isascii() and authorization.isprintable()):
                raise UnknownError(
                    f"API server {self._endpoint.url}: the token for it has characters that no header can hold"
                )
            headers["Authorization"] = authorization
        return headers

    def _unreachable(self, error: Exception) -> UnknownError:
        return UnknownError(f"API server {self._endpoint.url}: {lost_text(error)}")


def _folder(kind: Kind[Any], namespace: str) -> str:
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    # A name may be from a file: `/` and `?` in it, if they were not escaped, would make another request.
    return (
        f"{root}/namespaces/{quote(namespace, safe='')}/{kind.plural}"
        if namespace
        else f"{root}/{kind.plural}"
    )


def _object(kind: Kind[Any], of: Named) -> str:
    return f"{_folder(kind, of.namespace)}/{quote(of.name, safe='')}"


def _query(where: Where) -> dict[str, str]:
    selectors = {"labelSelector": where.labels, "fieldSelector": where.fields}
    return {key: value for key, value in selectors.items() if value}


def _target(path: str, query: Mapping[str, str] | None) -> str:
    return path + ("?" + urlencode(query) if query else "")


def _accept(kind: Kind[Any], suffix: str = "") -> str:
    return METADATA.format(f"PartialObjectMetadata{suffix}") if kind.partial else JSON


def _preconditions(of: Named) -> Object:
    return {"preconditions": {"uid": of.uid}} if of.uid else {}


@contextmanager
def _conflict_means_gone() -> Iterator[None]:
    """A context that raises GoneError in place of ConflictError.

    A conflict about the UID means that another object has the name now.
    """
    try:
        yield
    except ConflictError as error:
        raise GoneError(str(error)) from error


def _error(status: int, text: Text) -> ApiError:
    _, reason, message = decode.status(text)
    if status == HTTPStatus.UNAUTHORIZED and message in ("", "Unauthorized"):
        message = "the API server does not accept the credentials: log in again, or correct them"
    return from_status(status, reason, message or "the API server gives no reason")
