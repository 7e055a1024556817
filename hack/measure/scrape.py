"""Measure a scrape of a leading cluster service: its samples, its bytes, and the processor's time that it takes.

    hack/scrape-cost [--nodes 5000] [--namespaces 2000] [--away 600] [--waiting 2000]

The nodes have 8 cards with two slices each. `--away` of the nodes have no agent that is ready; pods wait in all
namespaces. No scrape reuses an earlier one; both formats are measured. Exits non-zero above 5,000 samples or 100 ms.
"""

import argparse
import gc
import statistics
import sys
import time

from device_plugin.adapters.metrics import OPENMETRICS, TEXT, Exposition
from device_plugin.allocator.allocator import Allocator
from device_plugin.allocator.explain import Explainer
from device_plugin.allocator.service import Shared
from device_plugin.cluster.cluster_gauges import ClusterGauges
from device_plugin.cluster.counts import Counts
from device_plugin.core.contract import annotations
from device_plugin.core.contract.grants import Grant, Slice
from device_plugin.core.http_values import HttpRequest
from device_plugin.core.pods import Agent, Container, ContainerKind, Node, Pod
from device_plugin.core.requests import DEFAULT_PREFIXES
from device_plugin.state.view import ClusterView
from hack.bench.extender.cluster_model import CONTAINER, ClusterModel, uid

CARDS, SCRAPES = 8, 9
MOST_SAMPLES, MOST_MS = 5000, 100.0
# Memory and core groups of a slice: a quarter of a card.
MIB, CORES = 4092, 15
SCHEDULER = "vgpu-scheduler"
LIMITS = {f"{DEFAULT_PREFIXES[0]}-mem": "4"}


def main() -> int:
    """Make the cluster, scrape, and print the costs of a scrape; returns the exit status."""
    parser = argparse.ArgumentParser(prog="hack/scrape-cost", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--nodes", type=int, default=5000, metavar="N", help="of 8 cards (default: %(default)s)"
    )
    parser.add_argument(
        "--namespaces", type=int, default=2000, metavar="N", help="with pods (default: %(default)s)"
    )
    parser.add_argument(
        "--away", type=int, default=600, metavar="N", help="nodes without an agent (default: %(default)s)"
    )
    parser.add_argument("--waiting", type=int, default=2000, metavar="N", help="pods (default: %(default)s)")
    args = parser.parse_args()
    view = cluster(args.nodes, args.namespaces, args.away, args.waiting)
    shared = Shared(view, Allocator(view, 60.0, time.monotonic), str, time.monotonic)
    read = ClusterGauges(shared, Explainer(shared, SCHEDULER, lambda _: False), str, Counts())
    print(
        f"{args.nodes} nodes of {CARDS} cards, {len(view.ledger.holdings())} slices in {args.namespaces} namespaces"
    )
    return max(measured(read, content) for content in (TEXT, OPENMETRICS))


def cluster(nodes: int, namespaces: int, away: int, waiting: int) -> ClusterView:
    """The state (view) of a large cluster as a leading replica knows it."""
    view = ClusterView(DEFAULT_PREFIXES, time.monotonic)
    model = ClusterModel(nodes, CARDS, 0.0, seconds=1)
    inventories = {name: model.inventory(name) for name in model.names()}
    view.job_news.sync(())
    view.node_news.sync([Node(name, inventory.encode()) for name, inventory in inventories.items()])
    view.agents.sync([Agent(f"agent-{name}", name, ready=True) for name in model.names()[away:]])
    held = [
        (name, Slice(card.uuid, MIB, tuple(range(first, first + CORES))))
        for name, inventory in inventories.items()
        for card in inventory.cards
        for first in (0, CORES)
    ]
    bound = [_pod(number, namespaces, *each) for number, each in enumerate(held)]
    view.pod_news.sync([*bound, *(_pod(len(held) + number, namespaces) for number in range(waiting))])
    return view


def _pod(number: int, namespaces: int, node: str = "", held: Slice | None = None) -> Pod:
    """A pod that asks for a quarter of a card; if `held`, it is bound and holds that slice."""
    grant = Grant(uid(number), node, {CONTAINER: (held,)}).encode() if held is not None else ""
    return Pod(
        f"team-{number % namespaces}", f"pod-{number}", uid(number), node=node, created="2026-11-21T07:00:00Z",
        scheduler=SCHEDULER, annotations={annotations.GRANT: grant} if grant else {},
        containers=(Container(CONTAINER, ContainerKind.MAIN, LIMITS),),
    )  # fmt: skip


def measured(read: ClusterGauges, content: str) -> int:
    """Scrape in this format, and print the costs; returns the exit status."""
    request = HttpRequest("GET", "/metrics", headers={"accept": content})
    took, body = list[float](), b""
    for _ in range(SCRAPES):
        gc.collect()
        begin = time.process_time()
        # A new application each time, because an application keeps its text for a second.
        answer = Exposition(read)(request)
        took.append(1000 * (time.process_time() - begin))
        body = b"".join(part for part in answer.body if isinstance(part, bytes))
    samples = sum(not line.startswith(b"#") for line in body.splitlines())
    median = statistics.median(took)
    print(
        f"{content.partition(';')[0]}: {samples} samples, {len(body) >> 10} KiB, {median:.0f} ms of CPU (median of"
        f" {SCRAPES}; at most {MOST_SAMPLES} samples, {MOST_MS:.0f} ms)"
    )
    return int(samples > MOST_SAMPLES or median > MOST_MS)


if __name__ == "__main__":
    sys.exit(main())
