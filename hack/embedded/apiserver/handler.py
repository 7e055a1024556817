"""HTTP/1.1 to and from the registry: one thread per kept connection."""

import contextlib
import json
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from hack.embedded.apiserver import errors, patch, resources, watch
from hack.embedded.apiserver.registry import Deletion
from hack.embedded.apiserver.resources import BINDINGS, RequestTarget
from hack.embedded.apiserver.selectors import selects
from hack.embedded.apiserver.store import Object, Stored

if TYPE_CHECKING:
    from hack.embedded.apiserver.server import EmbeddedApiServer, Listener

DEFAULT_WATCH_SECONDS = 1800.0
_VERSION = {"major": "1", "minor": "36", "gitVersion": "v1.36.0+vgpu.embedded", "platform": "linux/amd64"}
_WRITES = ("POST", "PUT", "PATCH", "DELETE")


class ApiHandler(BaseHTTPRequestHandler):
    """Serves one connection. Each answer is one write: a separate header would cost a delayed ACK."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    @property
    def api(self) -> "EmbeddedApiServer":
        """The server behind the listener."""
        return cast("Listener", self.server).api

    def handle(self) -> None:
        """Serve the connection until either side drops it; a drop is nobody's error."""
        with contextlib.suppress(ConnectionError, TimeoutError):
            super().handle()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's signature
        """Log nothing: tests read the server's record of requests instead."""

    def do_GET(self) -> None:
        """Health, version, one object, a list, or a watch."""
        self._answer(self._get)

    def do_POST(self) -> None:
        """Create, bind or evict."""
        self._answer(self._post)

    def do_PUT(self) -> None:
        """Replace an object."""
        self._answer(self._put)

    def do_PATCH(self) -> None:
        """Patch an object."""
        self._answer(self._patch)

    def do_DELETE(self) -> None:
        """Delete an object."""
        self._answer(self._delete)

    def _answer(self, verb: Any) -> None:
        url = urlsplit(self.path)
        self._query = {key: values[-1] for key, values in parse_qs(url.query).items()}
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            self._user = self.api.user(self.headers.get("Authorization"))
            if self.command in _WRITES:
                self.api.record(self._user, self.command, unquote(url.path))
            self._checked(verb, unquote(url.path), body)
        except errors.StatusError as error:
            self._send(error.code, msgspec.json.encode(error.status()))

    def _checked(self, verb: Any, path: str, body: bytes) -> None:
        # Kubernetes decodes into types and refuses other values; here a wrong type fails when it is used.
        try:
            verb(path, body)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise errors.bad_request(f"a field is missing or of the wrong type: {error!r}") from error

    def _get(self, path: str, body: bytes) -> None:  # noqa: ARG002 - GET has no body
        if path in ("/healthz", "/livez", "/readyz"):
            self._send(200, b"ok", "text/plain; charset=utf-8")
        elif path == "/version":
            self._send(200, msgspec.json.encode(_VERSION))
        elif (target := resources.target(path)).name:
            self._send(200, self.api.registry.get(target).document)
        elif target.resource is BINDINGS:
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
        version, items = store.select(resource, self._selection(target))
        head = (
            f'{{"kind":"{resource.kind}List","apiVersion":"{resource.api_version}",'
            f'"metadata":{{"resourceVersion":"{version}"}},"items":['
        )
        self._send(200, head.encode() + b",".join(stored.item for stored in items) + b"]}")

    def _watch(self, target: RequestTarget) -> None:
        self._version()
        lines = watch.stream(
            self.api.store,
            target.resource,
            self._selection(target),
            version=self._query.get("resourceVersion", ""),
            seconds=float(self._query.get("timeoutSeconds") or DEFAULT_WATCH_SECONDS),
            # Read before the client learns that the watch is open, so that it ends if it is dropped then.
            epoch=self.api.store.epoch,
            bookmark_seconds=self.api.bookmark_seconds if self._asks("allowWatchBookmarks") else None,
        )
        self.wfile.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        for piece in lines:
            if piece:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def _post(self, path: str, body: bytes) -> None:
        target, value = resources.target(path), _object(body)
        if target.resource is BINDINGS or target.subresource == "binding":
            self.api.registry.bind(self._user, target, value)
            self._send(201, _success({}, 201))
        elif target.subresource == "eviction":
            options, dry = _deletion(value.get("deleteOptions") or {}), self._query.get("dryRun") == "All"
            self.api.registry.evict(self._user, target, value, options, dry=dry)
            self._send(201, _success({}, 201))
        elif target.name or (target.resource.namespaced and not target.namespace):
            raise errors.method_not_allowed()
        else:
            self._send(201, self.api.registry.create(self._user, target, value).document)

    def _put(self, path: str, body: bytes) -> None:
        target, value = self._named(path), _object(body)
        # The registry may call it again after a lost race, and keeps the result.
        self._updated(target, lambda _: cast(Object, json.loads(msgspec.json.encode(value))), patched=False)

    def _patch(self, path: str, body: bytes) -> None:
        target = self._named(path)
        content_type = (self.headers.get("Content-Type") or "").partition(";")[0]
        if content_type not in patch.ACCEPTED:
            raise errors.unsupported_media_type()
        change = _object(body)
        self._updated(target, lambda old: patch.apply(content_type, old.copy(), change), patched=True)

    def _updated(self, target: RequestTarget, change: Any, *, patched: bool) -> None:
        stored, created = self.api.registry.update(self._user, target, change, patch=patched)
        self._send(201 if created else 200, stored.document)

    def _delete(self, path: str, body: bytes) -> None:
        target = self._named(path)
        if target.subresource:
            raise errors.method_not_allowed()
        options = {
            "gracePeriodSeconds": self._query.get("gracePeriodSeconds"),
            **(_object(body) if body else {}),
        }
        last = self.api.registry.delete(self._user, target, _deletion(options))
        self._send(200, last.document if target.resource is resources.PODS else _deleted(last))

    def _named(self, path: str) -> RequestTarget:
        target = resources.target(path)
        if not target.name or target.resource is BINDINGS or target.subresource in ("binding", "eviction"):
            raise errors.method_not_allowed()
        return target

    def _selection(self, target: RequestTarget) -> watch.Selects:
        return selects(
            target.resource,
            target.namespace,
            self._query.get("labelSelector", ""),
            self._query.get("fieldSelector", ""),
        )

    def _asks(self, option: str) -> bool:
        return self._query.get(option) in ("1", "true")

    def _version(self) -> int:
        text = self._query.get("resourceVersion") or "0"
        if not text.isdecimal():
            raise errors.bad_request(f'resourceVersion: Invalid value: "{text}": must be a whole number')
        return int(text)

    def _send(self, code: int, body: bytes, content_type: str = "application/json") -> None:
        head = (
            f"HTTP/1.1 {code} {HTTPStatus(code).phrase}\r\nContent-Type: {content_type}\r\n"
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
    """The Deletion in the JSON of DeleteOptions."""
    conditions, grace = options.get("preconditions") or {}, options.get("gracePeriodSeconds")
    return Deletion(
        None if grace is None else int(grace),
        conditions.get("uid", ""),
        conditions.get("resourceVersion", ""),
    )


def _success(details: dict[str, Any], code: int | None = None) -> bytes:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return msgspec.json.encode(
        {**status, **({"details": details} if details else {}), **({} if code is None else {"code": code})}
    )


def _deleted(last: Stored) -> bytes:
    details = {"name": last.name, "kind": last.resource.plural, "uid": last.value["metadata"]["uid"]}
    return _success({**details, **({"group": last.resource.group} if last.resource.group else {})})
