"""What Prometheus finds when it scrapes all of our pods: no fact twice."""

from collections.abc import Mapping

from prometheus_client import Metric as Family

from device_plugin.core.contract.metrics import Exporter
from tests.e2e import nodes, service
from tests.e2e.kubectl import Kubectl
from tests.e2e.waiting import eventually
from tests.e2e.workloads import slice_pod
from tests.exposed import exporters, facts, families


def scrapes() -> Mapping[str, Mapping[str, Family]]:
    """What each of our pods exports now."""
    ports = {service.agent(node): service.AGENT_PORT for node in nodes.names()}
    ports |= dict.fromkeys(service.replicas(), service.CLUSTER_PORT)
    assert len(ports) >= len(nodes.names()) + 2
    return {pod: families(service.SYSTEM.metrics(pod, port)) for pod, port in ports.items()}


def total(found: Mapping[str, Mapping[str, Family]], name: str) -> float:
    """A sum over all pods, as a query has it."""
    values = [scrape[name].samples for scrape in found.values() if name in scrape]
    return sum(sample.value for samples in values for sample in samples)


def test_no_fact_is_exported_by_two_pods_and_sums_are_the_truth(kubectl: Kubectl) -> None:
    kubectl.create(slice_pod("counted", 4, 15))
    kubectl.running("counted")

    def equal() -> bool:
        # A text may be a second old.
        found = scrapes()
        held = total(found, "vgpu_slice_memory_limit_bytes")
        return 0 < held == total(found, "vgpu_card_granted_memory_bytes")

    assert eventually(equal, 60)
    found = scrapes()
    agents = {service.agent(node) for node in nodes.names()}
    for pod, scrape in found.items():
        cluster = {Exporter.REPLICA, *([Exporter.LEADER] if pod == service.leader() else [])}
        own = {Exporter.AGENT} if pod in agents else cluster
        assert exporters(scrape) == {*own, Exporter.PROCESS}, pod
    every = [fact for scrape in found.values() for fact in facts(scrape)]
    assert len(every) == len(set(every))
