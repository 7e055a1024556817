"""What the kubelet tells of the health of tickets that a container holds."""

from tests.contract.kubelet.node import Node
from tests.release import since


@since("1.36", "the health of a container's devices, switched on,")
def test_a_sick_ticket_is_told_in_the_pods_status_and_its_container_goes_on(node: Node) -> None:
    plugin = node.plugin(node.mem, 4)
    node.create("one", node.container(mem=2, command=["sh", "-c", "sleep 4; exit 1"]))
    node.until_phase("one", "Running")
    sick, well = sorted(plugin.allocated[0])

    def told() -> dict[str, str]:
        (resource,) = node.state("one").get("allocatedResourcesStatus") or [{"name": node.mem}]
        assert resource["name"] == node.mem
        return {ticket["resourceID"]: ticket["health"] for ticket in resource.get("resources", [])}

    node.until(lambda: told() == {sick: "Healthy", well: "Healthy"}, "told")
    plugin.set_health(sick, healthy=False)
    node.until(lambda: told() == {sick: "Unhealthy", well: "Healthy"}, "told to be sick")
    assert node.status("one")["phase"] == "Running"
    before = node.state("one")["restartCount"]  # on a slow machine it has ended once already
    node.until(lambda: node.state("one")["restartCount"] > before, "starts again with its tickets")
    assert set(plugin.started) == {plugin.allocated[0]}
    assert len(plugin.allocated) == 1
