"""HTTP/1.1 in front of the registry: one thread per connection."""

import contextlib
import operator
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from hack.embedded.apiserver import errors, patch, relay, resources, reviews, watch
from hack.embedded.apiserver.registry import Deletion
from hack.embedded.apiserver.resources import BINDINGS, RequestTarget
from hack.embedded.apiserver.selectors import selects
from hack.embedded.apiserver.store import METADATA_HEAD, Object, Stored, Token

if TYPE_CHECKING:
    from hack.embedded.apiserver.server import EmbeddedApiServer, Listener

DEFAULT_WATCH_SECONDS = 1800.0
VERSION = {"major": "1", "minor": "36", "gitVersion": "v1.36.0-embedded"}
# Kinds whose objects are never stored and so cannot be read.
_NEVER_STORED = (BINDINGS, *reviews.KINDS)


class ApiHandler(BaseHTTPRequestHandler):
    """Serves one connection. Each answer is one write: a separate header would wait for a delayed ACK."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    @property
    def api(self) -> "EmbeddedApiServer":
        """The API server that accepted this connection."""
        return cast("Listener", self.server).api

    def handle(self) -> None:
        """Serve the connection until either side closes it; a lost connection is not an error."""
        with contextlib.suppress(ConnectionError, TimeoutError):
            super().handle()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's signature
        """Log nothing: tests read the server's record of requests instead."""

    def _answer(self) -> None:
        url = urlsplit(self.path)
        path, body = unquote(url.path), self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._query = {key: values[-1] for key, values in parse_qs(url.query).items()}
        verbs = {
            "GET": self._get,
            "POST": self._post,
            "PUT": self._put,
            "PATCH": self._patch,
            "DELETE": self._delete,
        }
        try:
            self._user = self.api.user(self.headers.get("Authorization"))
            if self.command != "GET":
                self.api.write_requests.append((self._user, self.command, path))
            if self.command == "GET" and (passed := relay.target(path)) is not None:
                relay.pass_on(self, self.api.store, passed, url.query)
                return
            if self.command == "GET" and path == "/version":
                self._send(200, msgspec.json.encode(VERSION))
                return
            if self.command == "GET" and (found := resources.discovery(path)) is not None:
                self._send(200, msgspec.json.encode(found))
                return
            target = resources.target(path)
            if self.command != "GET" and not target.resource.writable:
                raise errors.method_not_allowed()
            verbs[self.command](target, body)
        except errors.StatusError as error:
            if error.code == HTTPStatus.CONFLICT and self.command != "GET":
                self.api.conflicts.append((self._user, self.command, path))
            self._refuse(error)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            # Kubernetes refuses wrong types when it decodes the body; here a wrong type fails when it is used.
            self._refuse(errors.bad_request(f"a field is missing or of the wrong type: {error!r}"))

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815 - the base class's names

    def _refuse(self, error: errors.StatusError) -> None:
        self._send(error.code, msgspec.json.encode(error.status()))

    def _get(self, target: RequestTarget, body: bytes) -> None:  # noqa: ARG002 - GET has no body
        if target.name:
            self._send(200, self._shown(self.api.registry.get(target)))
        elif target.resource in _NEVER_STORED:
            raise errors.method_not_allowed()
        elif self._asks("watch"):
            self._watch(target)
        else:
            self._list(target)

    def _list(self, target: RequestTarget) -> None:
        wanted = self._version()
        resource, store = target.resource, self.api.store
        if wanted > store.version:
            raise errors.too_new(wanted, store.version)
        selection, limit = self._selection(target), int(self._query.get("limit") or 0)
        metadata = {}
        if limit:
            version, items, rest = store.page(
                resource, selection, limit, _token(self._query.get("continue", ""))
            )
            if rest:
                metadata["continue"] = _continue(rest)
        else:
            version, items = store.select(resource, selection)
        metadata["resourceVersion"] = str(version)
        head = METADATA_HEAD % b"List" if self._alone() else resource.head("List")
        head += b'"metadata":%b,"items":[' % msgspec.json.encode(metadata)
        shown = self._shown if self._alone() else operator.attrgetter("item")
        self._send(200, head + b",".join(map(shown, items)) + b"]}")

    def _watch(self, target: RequestTarget) -> None:
        self._version()
        lines = watch.stream(
            self.api.store,
            target.resource,
            self._selection(target),
            version=self._query.get("resourceVersion", ""),
            seconds=float(self._query.get("timeoutSeconds") or DEFAULT_WATCH_SECONDS),
            # Read before the client gets the answer: if watches are dropped after that, this watch ends too.
            epoch=self.api.store.epoch,
            bookmark_seconds=self.api.bookmark_seconds if self._asks("allowWatchBookmarks") else None,
            shown=self._shown,
        )
        self.wfile.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        for piece in lines:
            if piece:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def _post(self, target: RequestTarget, body: bytes) -> None:
        value, dry = _object(body), self._query.get("dryRun") == "All"
        if target.resource is BINDINGS or target.subresource == "binding":
            self.api.registry.bind(self._user, target, value)
            self.api.written(self._user, target)
            self._send(201, _success(code=201))
        elif target.subresource == "eviction":
            options = _deletion(value.get("deleteOptions") or {})
            self.api.registry.evict(self._user, target, value, options, dry=dry)
            self._send(201, _success(code=201))
        elif target.name or (target.resource.namespaced and not target.namespace):
            raise errors.method_not_allowed()
        elif target.resource in reviews.KINDS:
            status = reviews.status(self.api, self._user, target.resource, value.get("spec", {}))
            self._send(201, msgspec.json.encode({**value, "status": status}))
        else:
            self._send(201, self._shown(self.api.registry.create(self._user, target, value, dry=dry)))

    def _put(self, target: RequestTarget, body: bytes) -> None:
        self._update(target, lambda _: _object(body), patch=False)

    def _patch(self, target: RequestTarget, body: bytes) -> None:
        content_type = (self.headers.get("Content-Type") or "").partition(";")[0]
        change = _object(body)
        if target.resource.custom and content_type != patch.MERGE:
            raise errors.unsupported_media_type()
        self._update(target, lambda old: patch.apply(content_type, old, change), patch=True)

    def _update(self, target: RequestTarget, change: Callable[[Object], Object], *, patch: bool) -> None:
        _check_named(target)
        stored, created = self.api.registry.update(self._user, target, change, patch=patch)
        self.api.written(self._user, target)
        self._send(201 if created else 200, self._shown(stored))

    def _delete(self, target: RequestTarget, body: bytes) -> None:
        _check_named(target)
        if target.subresource:
            raise errors.method_not_allowed()
        options = {
            "gracePeriodSeconds": self._query.get("gracePeriodSeconds"),
            "propagationPolicy": self._query.get("propagationPolicy"),
            **(_object(body) if body else {}),
        }
        last = self.api.registry.delete(self._user, target, _deletion(options))
        stays = target.resource.returns_deleted or "deletionTimestamp" in last.value["metadata"]
        self._send(200, last.document if stays else _deleted(last))

    def _selection(self, target: RequestTarget) -> watch.Selects:
        return selects(
            target.resource,
            target.namespace,
            self._query.get("labelSelector", ""),
            self._query.get("fieldSelector", ""),
        )

    def _alone(self) -> bool:
        """True if the client wants only the metadata of each object."""
        return ";as=PartialObjectMetadata" in (self.headers.get("Accept") or "")

    def _shown(self, stored: Stored) -> bytes:
        return stored.metadata_document if self._alone() else stored.document

    def _asks(self, option: str) -> bool:
        return self._query.get(option) in ("1", "true")

    def _version(self) -> int:
        text = self._query.get("resourceVersion") or "0"
        if not text.isdecimal():
            raise errors.bad_request(f'resourceVersion: Invalid value: "{text}": must be a whole number')
        return int(text)

    def _send(self, code: int, body: bytes) -> None:
        head = (
            f"HTTP/1.1 {code} {HTTPStatus(code).phrase}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self.wfile.write(head.encode() + body)


def _object(body: bytes) -> Object:
    try:
        value = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise errors.bad_request(f"the body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise errors.bad_request("the body is not a JSON object")
    return value


def _deletion(options: Object) -> Deletion:
    """The Deletion that a DeleteOptions object describes."""
    conditions, grace = options.get("preconditions") or {}, options.get("gracePeriodSeconds")
    return Deletion(
        None if grace is None else int(grace),
        conditions.get("uid", ""),
        conditions.get("resourceVersion", ""),
        options.get("propagationPolicy") or "",
    )


def _continue(token: Token) -> str:
    """The token as text for clients: base64 of JSON, in the format of k8s.io/apiserver/pkg/storage."""
    text = msgspec.json.encode({"v": "meta.k8s.io/v1", "rv": token.version, "start": "/".join(token.after)})
    return urlsafe_b64encode(text).rstrip(b"=").decode()


def _token(text: str) -> Token | None:
    """The token in the query of a list; None if there is none. Raises StatusError 400."""
    if not text:
        return None
    try:
        read = msgspec.json.decode(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        namespace, _, name = read["start"].partition("/")
        return Token(int(read["rv"]), (namespace, name))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise errors.bad_request(f"continue key is not valid: {error}") from None


def _success(**more: Any) -> bytes:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return msgspec.json.encode({**status, **more})


def _deleted(last: Stored) -> bytes:
    details = {"name": last.name, "kind": last.resource.plural, "uid": last.value["metadata"]["uid"]}
    group = {"group": last.resource.group} if last.resource.group else {}
    return _success(details={**details, **group})


def _check_named(target: RequestTarget) -> None:
    """Raise StatusError 405 unless `target` is an object, or a subresource of one, that can be written as a whole."""
    if not target.name or target.resource is BINDINGS or target.subresource in ("binding", "eviction"):
        raise errors.method_not_allowed()
