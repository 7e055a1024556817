"""The cluster under test, as these tests see it: an address, what makes a request somebody's, and HTTP.

Nothing here knows which API server answers, so the same tests hold the stand-in to what the real one does.
"""

import http.client
import itertools
import json
import select
import ssl
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import urlencode

from tests.builders.objects import binding, pod
from tests.deadline import until

# Kubernetes tries an eviction that conflicts for 10 s before it says so.
DEADLINE = 30.0
PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
MERGE = "application/merge-patch+json"
ROLES = (
    "admin", "allocator", "agent", "engine", "kueue", "controller", "kubelet", "own kubelet", "garbage collector",
    "controller manager", "claim controller", "scheduler", "tenant", "editor",
)  # fmt: skip
# The node of the role `own kubelet`.
OWN_NODE = "contract-home"


@dataclass(frozen=True)
class Answer:
    """What came back: the HTTP status and the decoded JSON."""

    code: int
    body: Any

    @property
    def version(self) -> str:
        return str(self.body["metadata"]["resourceVersion"])

    @property
    def refusal(self) -> tuple[int, str]:
        """Code and reason of a failure; asserts that it is a Status as Kubernetes writes it."""
        assert (self.body["kind"], self.body["apiVersion"], self.body["status"]) == (
            "Status",
            "v1",
            "Failure",
        )
        assert self.body["code"] == self.code
        return self.code, self.body["reason"]

    @property
    def message(self) -> str:
        return str(self.body["message"])


class Watch:
    """An open watch; iterating gives (type, object) until the server ends it."""

    def __init__(
        self, connection: http.client.HTTPConnection, path: str, identity: Mapping[str, str]
    ) -> None:
        self._connection = connection
        connection.request("GET", path, headers=dict(identity))
        self._response = connection.getresponse()
        self.code = self._response.status

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for line in self._response:
            event = json.loads(line)
            yield event["type"], event["object"]

    def take(self, count: int) -> list[tuple[str, Any]]:
        """The next `count` events that are no bookmarks."""
        return list(itertools.islice((event for event in self if event[0] != "BOOKMARK"), count))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._response.close()
        self._connection.close()


@dataclass
class Cluster:
    """`address` is host:port, spoken to over `tls` if there is one.

    `identities` has the headers that make a request come from each of ROLES; `forget` loses all that happened
    before the given version, and returns a version that is lost.
    """

    address: str
    identities: Mapping[str, Mapping[str, str]]
    forget: Callable[[str], str] | None = None
    tls: ssl.SSLContext | None = None
    _connection: http.client.HTTPConnection = field(init=False)

    def __post_init__(self) -> None:
        self._connection = self.connect()

    def connect(self) -> http.client.HTTPConnection:
        """A new connection."""
        if self.tls is None:
            return http.client.HTTPConnection(self.address, timeout=DEADLINE)
        return http.client.HTTPSConnection(self.address, timeout=DEADLINE, context=self.tls)

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        role: str = "admin",
        media: str = "application/json",
        accept: str = "application/json",
    ) -> Answer:
        headers = {**self.identities[role], "Content-Type": media, "Accept": accept}
        content = None if body is None else json.dumps(body)
        if self._is_dropped():
            self.close()
        try:
            self._connection.request(method, path, content, headers)
            response = self._connection.getresponse()
            return Answer(response.status, json.loads(response.read()))
        except OSError:
            self.close()  # what is left of it would be taken for the next answer
            raise

    def _is_dropped(self) -> bool:
        """True if the server has closed the connection, as an API server does after 90 s without a request."""
        connected = self._connection.sock
        return connected is not None and bool(select.select([connected], [], [], 0)[0])

    def get(self, path: str, accept: str = "application/json") -> Answer:
        return self.call("GET", path, accept=accept)

    def post(self, path: str, body: object, role: str = "admin") -> Answer:
        return self.call("POST", path, body, role=role)

    def put(self, path: str, body: object, role: str = "admin") -> Answer:
        return self.call("PUT", path, body, role=role)

    def patch(self, path: str, body: object, role: str = "admin", media: str = MERGE) -> Answer:
        return self.call("PATCH", path, body, role=role, media=media)

    def delete(self, path: str, body: object = None, role: str = "admin") -> Answer:
        return self.call("DELETE", path, body, role=role)

    def watch(self, path: str, accept: str = "application/json", **options: str) -> Watch:
        query = urlencode({"watch": "true", **options})
        return Watch(self.connect(), f"{path}?{query}", {**self.identities["admin"], "Accept": accept})

    def close(self) -> None:
        self._connection.close()


@contextmanager
def namespace(cluster: Cluster, labels: Mapping[str, str]) -> Iterator[str]:
    """The name of a new namespace, in which pods can be created.

    A real API server refuses pods before it looks at policies until a controller has made the service account.
    """
    name = unique()
    metadata = {"name": name, "labels": labels}
    body = {"kind": "Namespace", "apiVersion": "v1", "metadata": metadata}
    assert cluster.post("/api/v1/namespaces", body).code == 201
    tried = f"/api/v1/namespaces/{name}/pods?dryRun=All"
    until(lambda: cluster.post(tried, pod(unique())).code == 201, f"pods in {name}")
    yield name
    cluster.delete(f"/api/v1/namespaces/{name}")


def bind(cluster: Cluster, path: str, node: str) -> None:
    """Return once this pod has the node, and the cache of the API server shows it.

    A deletion reads the pod from that cache first. A pod without a node ends at once, and this grace period of 0 s
    stays when the deletion reads the pod again, from etcd: until the cache is up to date, it has no grace.
    """
    name = path.rpartition("/")[2]
    assert cluster.post(f"{path}/binding", binding(name, node)).code == 201
    until(
        lambda: cluster.get(f"{path}?resourceVersion=0").body["spec"].get("nodeName") == node,
        f"{name} has a node in the cache",
    )


def nowhere(pod: str) -> str:
    """A node for this pod that is not there. Kubernetes deletes all pods of one that has been missing for 40 s."""
    return f"node-of-{pod}"


def unique(stem: str = "contract") -> str:
    """A name that no other test uses: a real cluster outlives them."""
    return f"{stem}-{uuid.uuid4().hex[:10]}"
