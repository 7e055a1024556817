"""The cluster as a caller may read it: with all rights, with those of one namespace, and as it changes."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

import pytest

from device_plugin.adapters.http.client import Connection
from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.endpoint import Endpoint
from device_plugin.cli.access.caller import MAY_I
from device_plugin.cli.reading.reader import ClusterReader, Scope
from device_plugin.kube.api import EVERYWHERE, Kind, Listed, Object, Where
from device_plugin.kube.errors import ForbiddenError
from tests.cli.fleet import ADMIN, Fleet
from tests.deadline import eventually


class Limited(KubeClient):
    """A client whose user may list and watch only these plurals, by namespace (empty: all of them)."""

    def __init__(self, endpoint: Endpoint, allowed: Mapping[str, Sequence[str]]) -> None:
        super().__init__(endpoint, "test")
        self._allowed = allowed

    def list(self, kind: Kind[Any], where: Where = EVERYWHERE) -> Listed[Any]:
        if where.namespace not in self._allowed.get(kind.plural, ()):
            raise ForbiddenError("forbidden", 403, "Forbidden")
        return super().list(kind, where)

    def watch(self, kind: Kind[Any], where: Where, version: str, silence: float) -> Connection:
        if where.namespace not in self._allowed.get(kind.plural, ()):
            raise ForbiddenError("forbidden", 403, "Forbidden")
        return super().watch(kind, where, version, silence)

    def create(self, kind: Kind[Any], body: Object, namespace: str = "", *, dry: bool = False) -> Any:
        if kind is not MAY_I:
            return super().create(kind, body, namespace, dry=dry)
        asked = body["spec"]["resourceAttributes"]
        return asked["namespace"] in self._allowed.get(asked["resource"], ())


ALL = {"nodes": ("",), "pods": ("",)}


def client(fleet: Fleet, allowed: Mapping[str, Sequence[str]] = ALL) -> Limited:
    return Limited(Endpoint(fleet.url, lambda: f"Bearer {ADMIN}"), allowed)


def filled(fleet: Fleet) -> Fleet:
    fleet.node("n1", 2)
    fleet.pod("a", 4, "n1-0")
    fleet.pod("b", 4)
    fleet.say("a", phase="Running")
    return fleet


def test_all_cards_with_pods_that_run_and_pods_that_do_not(fleet: Fleet) -> None:
    filled(fleet).pod("c", 4, "n1-1")
    fleet.pod("done", 4, "n1-1")
    fleet.say("done", phase="Succeeded")
    with closing(client(fleet)) as api:
        reader = ClusterReader(api, Scope())
        reading = reader.read()
        assert [(pod.name, pod.running) for pod in reading.pods] == [("c", False), ("a", True)]
        assert [[holder.pod for holder in card.holders] for card in reading.cards()] == [["a"], ["c"]]
        assert not reading.missing


@pytest.mark.parametrize(
    ("allowed", "scope", "pods", "cards", "lacks"),
    [
        (
            {"pods": ("default",)},
            Scope(own="default"),
            ["a"],
            1,
            ["list nodes", "list pods of all namespaces"],
        ),
        ({"pods": ("default",)}, Scope("default"), ["a"], 1, ["list nodes"]),
        (
            {"nodes": ("",)},
            Scope(own="default"),
            [],
            2,
            ["list pods of all namespaces", "list pods of namespace default"],
        ),
        ({}, Scope("default"), [], 0, ["list nodes", "list pods of namespace default"]),
        (ALL, Scope(pod_labels="none=such"), [], 2, []),
        (ALL, Scope(node_labels="none=such"), ["a"], 0, []),
        (ALL, Scope(node="n1"), ["a"], 2, []),
        (ALL, Scope(node="n2"), [], 0, []),
    ],
)
def test_what_may_not_be_read_is_named_with_a_rule_and_the_rest_is_read(
    fleet: Fleet, allowed: dict[str, list[str]], scope: Scope, pods: list[str], cards: int, lacks: list[str]
) -> None:
    with closing(client(filled(fleet), allowed)) as api:
        reading = ClusterReader(api, scope).read()
    assert [pod.name for pod in reading.pods] == pods
    assert len([*reading.cards()]) == cards
    assert [missing.what for missing in reading.missing] == lacks
    assert all("verbs: [list, watch]" in str(missing) for missing in reading.missing)


def test_changes_are_followed_from_the_lists_on(fleet: Fleet) -> None:
    with closing(client(filled(fleet))) as api:
        reader = ClusterReader(api, Scope())
        reader.read()
        told: list[str] = []
        with reader.following(told.append):
            fleet.pod("later", 4, "n1-1")
            fleet.say("a", phase="Succeeded")
            held = [[], ["later"]]
            assert eventually(lambda: _holders(reader) == held, 60)
            fleet.node("n2")
            assert eventually(lambda: "n2" in reader.reading().nodes, 60)
            # Whoever follows is told of a change once it is in the view.
            assert eventually(lambda: set(told) == {"n1", "n2"}, 60), told


def _holders(reader: ClusterReader) -> list[list[str]]:
    return [[holder.pod for holder in card.holders] for card in reader.reading().cards()]
