"""The page's waiting list has pods that ask by ResourceClaims, as far as the caller may read the claims."""

from collections.abc import Sequence
from typing import Any

import pytest

from device_plugin.cli.ui import watches
from device_plugin.kube.api import EVERYWHERE, RESOURCE_CLAIMS, Kind, Listed, Where
from device_plugin.kube.errors import from_status
from tests.builders import objects
from tests.builders.cards import MEM
from tests.builders.claims import claim
from tests.cli.fleet import Fleet
from tests.cli.reading.test_reader import Limited
from tests.cli.ui.test_follow import ALL, SECONDS, followed, shown
from tests.deadline import eventually

WITH_CLAIMS = {**ALL, RESOURCE_CLAIMS.plural: ("",)}
TEAM = "kube-public"


def claiming(fleet: Fleet, name: str, namespace: str = "default", **limits: int) -> None:
    """A pod that asks by the ResourceClaim `slice`, and in limits if there are some."""
    asked = {MEM: limits["mem"]} if limits else None
    fleet.post(f"/api/v1/namespaces/{namespace}/pods", objects.claiming(name, "slice", asked))


def make_claim(fleet: Fleet, namespace: str = "default", **exactly: Any) -> None:
    made = claim(**exactly)
    made["metadata"] = {"name": "slice"}
    fleet.post(f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims", made)


def test_a_pod_waits_for_its_claim_and_then_for_a_card(fleet: Fleet) -> None:
    fleet.node("n1", 2, claims=True)
    claiming(fleet, "a")
    with followed(fleet, WITH_CLAIMS) as entries:
        assert eventually(lambda: "default/a" in shown(entries, "waiting"), SECONDS)
        assert shown(entries, "waiting")["default/a"]["text"].startswith("waits for its claim: ")
        make_claim(fleet)
        assert eventually(lambda: shown(entries, "waiting")["default/a"]["reason"] == "fits", SECONDS)
        row = shown(entries, "waiting")["default/a"]
        assert row["asks"] == "hygon.com/dcu-mem: 8, hygon.com/dcu-cores: 30"
        fleet.remove("a")
        assert eventually(lambda: shown(entries, "waiting") == {}, SECONDS)
        assert shown(entries, "notice") == {}


@pytest.mark.parametrize("status", [403, 404], ids=["no right", "an older API server"])
def test_where_claims_cannot_be_read_pods_are_shown_as_they_ask_in_limits(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    listed = Limited.list
    asked: list[str] = []

    def some(limited: Limited, kind: Kind[Any], where: Where = EVERYWHERE) -> Listed[Any]:
        if kind is RESOURCE_CLAIMS:
            asked.append(where.namespace)
            raise from_status(status, "", "not here")
        return listed(limited, kind, where)

    monkeypatch.setattr(Limited, "list", some)
    monkeypatch.setattr(watches, "OPTIONAL_SECONDS", 0.05)
    fleet.node("n1", 2, claims=True)
    make_claim(fleet, deviceClassName="nic.example.com")
    claiming(fleet, "by-claim")
    claiming(fleet, "both", mem=8)
    with followed(fleet, WITH_CLAIMS) as entries:
        assert eventually(lambda: len(asked) >= 4, SECONDS)
        assert eventually(lambda: shown(entries, "waiting").keys() == {"default/both"}, SECONDS)
        row = shown(entries, "waiting")["default/both"]
        assert (row["reason"], row["asks"]) == ("fits", "hygon.com/dcu-mem: 8")
        assert shown(entries, "notice") == {}


def test_where_no_node_prepares_claims_they_are_not_ours(fleet: Fleet) -> None:
    fleet.node("n1", 2)
    make_claim(fleet, deviceClassName="nic.example.com")
    claiming(fleet, "by-claim")
    claiming(fleet, "both", mem=8)
    with followed(fleet, WITH_CLAIMS) as entries:
        assert eventually(lambda: shown(entries, "waiting").keys() == {"default/both"}, SECONDS)
        assert shown(entries, "waiting")["default/both"]["reason"] == "fits"
        fleet.node("n2", claims=True)
        assert eventually(
            lambda: shown(entries, "waiting").keys() == {"default/both", "default/by-claim"}, SECONDS
        )
        text = shown(entries, "waiting")["default/both"]["text"]
        assert text.startswith("waits for its claim: ")


def test_of_other_namespaces_whose_claims_cannot_be_read_no_pod_is_said_to_lack_its_claim(
    fleet: Fleet,
) -> None:
    fleet.node("n1", claims=True)
    for namespace in ("default", TEAM):
        claiming(fleet, "a", namespace)
        make_claim(fleet, namespace)
    with followed(fleet, {**ALL, RESOURCE_CLAIMS.plural: ("default",)}) as entries:
        assert eventually(lambda: shown(entries, "waiting").keys() == {"default/a"}, SECONDS)
        assert shown(entries, "notice") == {}


def test_the_right_to_read_claims_may_come_and_go(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "OPTIONAL_SECONDS", 0.05)
    fleet.node("n1", 2, claims=True)
    claiming(fleet, "a")
    make_claim(fleet)
    fleet.pod("limits", 4)
    allowed: dict[str, Sequence[str]] = {**ALL}
    with followed(fleet, allowed) as entries:
        assert eventually(lambda: shown(entries, "waiting").keys() == {"default/limits"}, SECONDS)
        allowed[RESOURCE_CLAIMS.plural] = ("",)
        assert eventually(
            lambda: shown(entries, "waiting").keys() == {"default/a", "default/limits"}, SECONDS
        )
        allowed[RESOURCE_CLAIMS.plural] = ()
        fleet.stop()
        fleet.start()
        assert eventually(lambda: shown(entries, "waiting").keys() == {"default/limits"}, SECONDS)
