"""Every fact has one exporter: agent, leader and standby are scraped together, as Prometheus scrapes them."""

import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import Metric as Family
from prometheus_client.parser import text_string_to_metric_families

from device_plugin.core.metrics import Exporter, MetricType
from device_plugin.embedded.cluster import EmbeddedCluster, Options
from device_plugin.embedded.person import Person
from device_plugin.embedded.trials.load import phase
from device_plugin.embedded.trials.witness import Witness
from hack.reference.metrics import declared
from tests.deadline import eventually
from vgpu_runtime import sim

pytestmark = pytest.mark.usefixtures("native")

CARDS = "version: v1\ncards:\n  - {preset: hygon-60cu-16gib, count: 2}\n"
DECLARED = {metric.name: metric for metric in declared()}
Scrape = dict[str, Family]


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """One node with two cards and a container on them, and two replicas of the cluster service."""
    with tempfile.TemporaryDirectory(prefix="vg-") as folder:
        options = Options(replicas=2, on_start=Witness())
        with EmbeddedCluster(Path(folder), {"n": sim.parse(CARDS)}, options) as running:
            person = Person(running.api.url)
            container = {"name": "main", "image": "none", "resources": {"limits": {"hygon.com/dcu-mem": "4"}}}
            person.create(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": "p"},
                    "spec": {"containers": [container]},
                }
            )
            assert eventually(lambda: phase(person.pods()[0]) == "Running", 60)
            yield running


def scrape(address: str) -> Scrape:
    """What one process exports, by the names that are declared."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    found = {family.name + "_total" * (family.type == "counter"): family for family in families}
    assert len(found) == len(families), "a name is exported twice by one process"
    return found


def exported(found: Scrape) -> set[Exporter]:
    """Who exports what was scraped; every family is as it is declared."""
    for name, family in found.items():
        metric = DECLARED[name]
        assert (family.type, family.documentation) == (metric.type.value, metric.help), name
        for sample in family.samples:
            buckets = {"le"} if metric.type is MetricType.HISTOGRAM else set()
            assert sample.labels.keys() - buckets == set(metric.labels), sample
    return {DECLARED[name].exporter for name in found}


def series(found: Scrape) -> set[tuple[str, frozenset[tuple[str, str]]]]:
    """What of a scrape is said of the cluster, not of the process itself: sample names with their labels."""
    return {
        (sample.name, frozenset(sample.labels.items()))
        for name, family in found.items()
        for sample in family.samples
        if DECLARED[name].exporter is not Exporter.REPLICA
    }


def test_no_sample_is_exported_by_two_of_agent_leader_and_standby(cluster: EmbeddedCluster) -> None:
    replicas = {replica.name: replica.service.addresses["http"] for replica in cluster.replicas}

    def roles() -> dict[float, Scrape]:
        scrapes = [scrape(address) for address in replicas.values()]
        return {found["vgpu_leader"].samples[0].value: found for found in scrapes if "vgpu_leader" in found}

    both = eventually(lambda: found if len(found := roles()) == 2 else None, 30)
    assert both, "of two replicas one leads"
    agent, leader, standby = scrape(cluster.agents["n"].addresses["http"]), both[1.0], both[0.0]
    assert exported(agent) == {Exporter.AGENT}
    assert exported(leader) == {Exporter.LEADER, Exporter.REPLICA}
    assert exported(standby) == {Exporter.REPLICA}
    names = [{name for name, _ in series(found)} for found in (agent, leader)]
    assert all(names)
    assert names[0].isdisjoint(names[1])
    (held,) = agent["vgpu_slice_memory_limit_bytes"].samples
    granted = leader["vgpu_card_granted_memory_bytes"].samples
    assert sum(sample.value for sample in granted) == held.value == 4092 << 20
    cards = agent["vgpu_card_memory_bytes"].samples
    assert sum(sample.value for sample in cards) == 2 * 16368 << 20
