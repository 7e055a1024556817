"""What pods request of their node and what nodes can give, added up as kube-scheduler does."""

from device_plugin.adapters.kube.room import offered, requested
from device_plugin.core.hosts import Room


def amounts(cpu: str = "0", memory: str = "0", disk: str = "0") -> dict[str, str]:
    return {"cpu": cpu, "memory": memory, "ephemeral-storage": disk}


def test_main_containers_and_sidecars_add_up_and_init_containers_do_not() -> None:
    mains = [amounts("500m", "1Gi", "1Gi"), amounts("1", "1500Ki", "1")]
    inits = [(amounts("250m", "1Mi"), True), (amounts("3", "1Mi", "5Gi"), False)]
    assert requested(mains, inits, {}, {}) == Room(3250, 1024 + 2 + 1, 5120)


def test_what_the_pod_as_a_whole_requests_goes_before_its_containers() -> None:
    found = requested([amounts("4", "4Gi", "2Mi")], [], {"cpu": "1"}, {"memory": "10Mi"})
    assert found == Room(1000, 4106, 2)


def test_a_node_gives_what_is_allocatable_and_nothing_of_what_it_does_not_name() -> None:
    assert offered({"cpu": "3920m", "memory": "1025Ki", "ephemeral-storage": "47093746742"}) == Room(
        3920, 1, 44912
    )
    assert offered({}) == Room()
