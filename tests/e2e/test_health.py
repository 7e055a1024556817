"""A card turns sick under a running slice: its pods show it, and so do capacity, inventory, events and metrics."""

from typing import Any

from tests.e2e import nodes, service
from tests.e2e.kubectl import Kubectl
from tests.e2e.slices import held, inventory
from tests.e2e.waiting import eventually
from tests.e2e.workloads import slice_pod

MEM = "hygon.com/dcu-mem"


def simulate(verb: str, uuid: str) -> None:
    service.SYSTEM.inside(
        service.agent(nodes.first()),
        "vgpu",
        "simulate",
        verb,
        uuid,
        "--folder",
        "/var/lib/vgpu-sim",
        container="agent",
    )


def health(kubectl: Kubectl, pod: str) -> set[str]:
    """What the kubelet says of the devices that the pod holds (KEP-4680)."""
    statuses = kubectl.pod(pod)["status"]["containerStatuses"]
    resources: list[Any] = [r for status in statuses for r in status.get("allocatedResourcesStatus", [])]
    return {entry["health"] for resource in resources for entry in resource["resources"]}


def units() -> int:
    return int(nodes.get(nodes.first())["status"]["allocatable"][MEM])


def sick_cards() -> list[str]:
    """The cards that the inventory of the node calls sick."""
    return [card["uuid"] for card in inventory(nodes.first())["cards"] if not card["healthy"]]


def said_to_be_sick(uuid: str) -> bool:
    """True if an event of the node says so; other events about a card come when it is cordoned, or well again."""
    events = Kubectl().events(nodes.first())
    return any(event.startswith("CardUnhealthy") and uuid in event for event in events)


def healthy_metric(uuid: str) -> str:
    lines = service.SYSTEM.metrics(service.agent(nodes.first()), service.AGENT_PORT).splitlines()
    (line,) = (line for line in lines if line.startswith("vgpu_card_healthy") and uuid in line)
    return line.split()[-1]


def test_a_sick_card_shows_everywhere_and_recovers(kubectl: Kubectl) -> None:
    sick, well = inventory(nodes.first())["cards"][:2]
    first, second = sick["uuid"], well["uuid"]
    for name, card in (("on-sick", first), ("on-well", second)):
        body = slice_pod(name, mem=4, cores=15, **nodes.on(nodes.first()))
        body["metadata"]["annotations"] = {"vgpu.io/card-uuid": card}
        kubectl.create(body)
    kubectl.running("on-sick", "on-well")
    full = units()
    simulate("sick", first)
    try:
        assert eventually(lambda: units() == full - sick["units"], 60), units()
        assert eventually(lambda: sick_cards() == [first], 30), sick_cards()
        assert eventually(lambda: healthy_metric(first) == "0.0", 30)
        assert healthy_metric(second) == "1.0"
        assert eventually(lambda: said_to_be_sick(first), 30)
        assert eventually(lambda: "Unhealthy" in health(kubectl, "on-sick"), 60)
        assert "Unhealthy" not in health(kubectl, "on-well")
        refused = slice_pod("refused", mem=4, cores=15, **nodes.on(nodes.first()))
        refused["metadata"]["annotations"] = {"vgpu.io/card-uuid": first}
        kubectl.create(refused)
        assert eventually(lambda: any("unhealthy" in event for event in kubectl.events("refused")), 30)
        assert kubectl.phase("on-sick") == "Running"
    finally:
        simulate("well", first)
    assert eventually(lambda: units() == full, 60)
    assert eventually(lambda: healthy_metric(first) == "1.0", 30)
    kubectl.running("refused")
    assert held(kubectl, "refused")[0].card == first
