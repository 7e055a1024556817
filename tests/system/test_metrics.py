"""Every fact has one exporter: agent, leader and standby are scraped together, as Prometheus scrapes them."""

import urllib.request
from collections.abc import Iterator, Mapping

import pytest
from prometheus_client import Metric as Family

from device_plugin.core.contract.metrics import Exporter
from hack.embedded.cluster import EmbeddedCluster, Options
from hack.embedded.person import phase
from hack.measure.one_machine import one_machine
from hack.measure.witness import Witness
from tests.builders import objects
from tests.builders.cards import CARDS, MEM
from tests.deadline import eventually
from tests.exposed import exporters, facts, families
from vgpu_runtime import sim

pytestmark = pytest.mark.usefixtures("native")


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """One node with two cards and a container on them, and two replicas of the cluster service."""
    with one_machine({"n": sim.parse(CARDS)}, Options(replicas=2, on_start=Witness())) as (running, person):
        person.create(objects.pod("p", {MEM: "4"}))
        assert eventually(lambda: phase(person.pods()[0]) == "Running", 60)
        yield running


def scrape(address: str) -> Mapping[str, Family]:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        return families(answer.read().decode())


def test_no_sample_is_exported_by_two_of_agent_leader_and_standby(cluster: EmbeddedCluster) -> None:
    replicas = {replica.name: replica.service.addresses["http"] for replica in cluster.replicas}

    def roles() -> dict[float, Mapping[str, Family]]:
        scrapes = [scrape(address) for address in replicas.values()]
        return {found["vgpu_leader"].samples[0].value: found for found in scrapes if "vgpu_leader" in found}

    both = eventually(lambda: found if len(found := roles()) == 2 else None, 30)
    assert both, "of two replicas one leads"
    agent, leader, standby = scrape(cluster.agents["n"].addresses["http"]), both[1.0], both[0.0]
    assert exporters(agent) == {Exporter.AGENT, Exporter.PROCESS}
    assert exporters(leader) == {Exporter.LEADER, Exporter.REPLICA, Exporter.PROCESS}
    assert exporters(standby) == {Exporter.REPLICA, Exporter.PROCESS}
    names = [{name for name, _ in facts(found)} for found in (agent, leader)]
    assert all(names)
    assert names[0].isdisjoint(names[1])
    (held,) = agent["vgpu_slice_memory_limit_bytes"].samples
    granted = agent["vgpu_card_granted_memory_bytes"].samples
    assert sum(sample.value for sample in granted) == held.value == 4092 << 20
    cards = agent["vgpu_card_memory_bytes"].samples
    assert sum(sample.value for sample in cards) == 2 * 16368 << 20
