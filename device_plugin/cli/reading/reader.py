"""Reads the cluster with the caller's rights: lists of metadata, and watches that continue them.

The metadata of a pod does not have its phase, so there are two lists of pods: running pods, and bound pods that do not
run. Pods that have ended are in neither.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.watch import ListWatch
from device_plugin.cli.access.caller import list_unless_forbidden
from device_plugin.cli.reading.cluster import ClusterReading, KnownCluster, MissingRight
from device_plugin.kube.api import NODES, PODS, Change, Kind, Metadata, Where
from device_plugin.kube.errors import ApiError

RUNNING = "status.phase=Running"
NOT_RUNNING = "status.phase!=Running,status.phase!=Succeeded,status.phase!=Failed,spec.nodeName!="


@dataclass(frozen=True, slots=True)
class Scope:
    """The part of the cluster that a command reads: pods of `namespace` (empty: of all), and nodes.

    `pod_labels` and `node_labels` are label selectors. `own` is the namespace that is read if the caller may not list
    the pods of all namespaces. With `node`, only that node and its pods are read. If `nodes` is false, only pods are
    read.
    """

    namespace: str = ""
    own: str = ""
    pod_labels: str = ""
    node_labels: str = ""
    node: str = ""
    nodes: bool = True


@dataclass(slots=True)
class _Followed:
    """A list that could be read, which a watch continues: its kind, its selection, and its resource version.

    `running` is true for the list of running pods.
    """

    kind: Kind[Metadata]
    where: Where
    version: str
    running: bool = False


def rule_to_list(plural: str, namespace: str = "", group: str = "") -> str:
    """Returns the RBAC rule that allows to list and watch objects, of one namespace or (empty) of all."""
    role = f"a Role of namespace {namespace}" if namespace else "a ClusterRole"
    return f'apiGroups: ["{group}"], resources: [{plural}], verbs: [list, watch], in {role}'


class ClusterReader:
    """Reads the part of the cluster that the caller may read, and watches it. Any thread may call `reading`."""

    def __init__(self, client: KubeClient, scope: Scope) -> None:
        self._client = client
        self._scope = scope
        self._lock = threading.Lock()
        self._known = KnownCluster()
        self._missing: list[MissingRight] = []
        self._namespace = scope.namespace
        self._followed: list[_Followed] = []
        self._nodes_known = False

    def read(self) -> ClusterReading:
        """List nodes and pods; returns the cards, their holders, and what could not be read.

        Raises ApiError for other problems than missing rights.
        """
        if self._scope.nodes:
            self._nodes()
        # In this order a pod that begins to run between the lists is in both; in the other order it would be in none.
        self._pods(NOT_RUNNING, running=False)
        self._pods(RUNNING, running=True)
        return self.reading()

    @property
    def forbidden(self) -> bool:
        """True if the caller may list none of the objects that `read` asked for."""
        return not self._followed

    def read_nodes(self) -> ClusterReading:
        """List only nodes; returns a reading without pods that hold slices.

        A missing right is noted in the reading. Raises ApiError for other problems.
        """
        self._nodes()
        return self.reading()

    def reading(self) -> ClusterReading:
        """Returns a reading of all that is known now."""
        with self._lock:
            selected = bool(self._scope.node_labels) and self._nodes_known
            return self._known.reading(self._missing, self._namespace, selected=selected)

    @contextmanager
    def following(
        self, changed: Callable[[str], None], heard: Callable[[str, ApiError | None], None] = lambda *_: None
    ) -> Iterator[None]:
        """Watch the objects that `read` listed, and call `changed` with the name of each node that may have changed.

        The call comes from another thread. After a new list its argument is empty: any node may have changed. `heard`
        gets the name of a watch, with an error while the API server does not answer, and with None once it answers.
        """
        stop = threading.Event()
        watches = [
            (each, ListWatch(self._client, each.kind, each.where, version=each.version))
            for each in self._followed
        ]
        threads = [
            threading.Thread(
                target=watch.run, daemon=True,
                args=(
                    partial(self._sync, each, changed), partial(self._see, each, changed), stop,
                    partial(heard, f"{each.kind.plural} {each.where.fields}"),
                    partial(heard, f"{each.kind.plural} {each.where.fields}", None),
                ),
            )
            for each, watch in watches
        ]  # fmt: skip
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for _, watch in watches:
                watch.interrupt()
            for thread in threads:
                thread.join()

    def _nodes(self) -> None:
        name = f"metadata.name={self._scope.node}" if self._scope.node else ""
        kind, where = NODES.metadata, Where(labels=self._scope.node_labels, fields=name)
        if (found := list_unless_forbidden(self._client, kind, where)) is None:
            self._lack("list nodes", "cards are known only as grants name them", "nodes")
            return
        self._nodes_known = True
        self._take(_Followed(kind, where, found.version), found.items)

    def _pods(self, fields: str, *, running: bool) -> None:
        kind = PODS.metadata
        found = list_unless_forbidden(self._client, kind, self._where(fields))
        if found is None and not self._namespace and self._scope.own:
            self._namespace = self._scope.own
            self._lack(
                "list pods of all namespaces", f"only those of namespace {self._namespace} are known", "pods"
            )
            found = list_unless_forbidden(self._client, kind, self._where(fields))
        if found is None:
            self._lack_pods("who holds slices is not known")
            return
        self._take(_Followed(kind, self._where(fields), found.version, running), found.items)

    def _where(self, fields: str) -> Where:
        on_node = f",spec.nodeName={self._scope.node}" if self._scope.node else ""
        return Where(self._namespace, self._scope.pod_labels, fields + on_node)

    def _lack_pods(self, unknown: str) -> None:
        """Record that the caller may not list the pods of the namespace that is read.

        `unknown` says which data is not known without this right.
        """
        of = f"namespace {self._namespace}" if self._namespace else "all namespaces"
        self._lack(f"list pods of {of}", unknown, "pods", self._namespace)

    def _lack(self, what: str, unknown: str, plural: str, namespace: str = "") -> None:
        missing = MissingRight(what, unknown, rule_to_list(plural, namespace))
        if missing not in self._missing:
            self._missing.append(missing)

    def _take(self, followed: _Followed, items: Sequence[Metadata]) -> None:
        self._followed.append(followed)
        self._sync(followed, lambda _: None, items)

    def _sync(self, followed: _Followed, changed: Callable[[str], None], items: Sequence[Metadata]) -> None:
        """Record a whole list; known objects that are not in it are removed."""
        with self._lock:
            known = self._known
            if followed.kind.plural == NODES.plural:
                for name in known.node_names() - {item.name for item in items}:
                    known.forget_node(name)
                for item in items:
                    known.see_node(item)
            else:
                for uid in known.uids(running=followed.running) - {item.uid for item in items}:
                    known.forget_pod(uid, running=followed.running)
                for item in items:
                    known.see_pod(item, running=followed.running)
        changed("")

    def _see(
        self, followed: _Followed, changed: Callable[[str], None], change: Change, item: Metadata
    ) -> None:
        gone = change is Change.DELETED
        with self._lock:
            if followed.kind.plural == NODES.plural:
                node = item.name
                if gone:
                    self._known.forget_node(node)
                else:
                    self._known.see_node(item)
            elif gone:
                node = self._known.forget_pod(item.uid, running=followed.running)
            else:
                node = self._known.see_pod(item, running=followed.running)
        if node:
            changed(node)
