"""Every query of the boards and of the rules gives a result on a real Prometheus that scrapes the cluster."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, expect

from device_plugin.kube.api import JOBS, Kind
from hack.generate.monitoring.alerts import ALERTS
from hack.generate.monitoring.boards import BOARDS
from hack.generate.monitoring.rules import recording_rules
from tests.e2e import nodes, service
from tests.e2e.kubectl import Kubectl
from tests.e2e.pages import opened as page_of
from tests.e2e.prometheus import INTERVAL, Prometheus, monitored, scraping
from tests.e2e.queued_jobs import pods, queued, running
from tests.e2e.slices import held, inventory
from tests.e2e.waiting import eventually
from tests.e2e.workloads import PREFIX, slice_pod
from tests.hack.generate.monitoring.queries import metrics_in, runnable

QUOTAS = Kind("", "v1", "resourcequotas", "ResourceQuota", dict)
# What the test cannot bring about in its time: 64 pods that ask, a Job that has made no progress for 10 minutes, a node
# whose agent is away, and a slice that has been idle for 30 minutes.
EMPTY = ("vgpu_fragmentation_ratio", "vgpu_job_stuck_seconds", "vgpu_node_not_serving")
EMPTY_PANEL = ": Idle slices by owner: "
SAYS = """printf '%-63s\\n' "40 100" 3 1<>"$VGPU_PROGRESS" """


def test_every_query_of_boards_and_rules_gives_a_result(kubectl: Kubectl, tmp_path: Path) -> None:
    workload(kubectl)
    with (
        busy(kubectl),
        exported("kube-state-metrics", lambda: quota_metrics(kubectl) + owner_metrics(kubectl)) as states,
        exported("hcu-exporter", hcu_metrics) as hcu,
        scraping(tmp_path, [*monitored(), states, hcu]) as prometheus,
    ):
        expected = {
            name: query
            for name, query in named_queries().items()
            if not metrics_in(query) & {*EMPTY} and EMPTY_PANEL not in name
        }
        assert len(expected) > 60

        def all_gave_one() -> bool:
            # A scrape that fails takes away the result of one query or another for a moment.
            for name in [name for name, query in expected.items() if prometheus.query(query)]:
                del expected[name]
            return not expected

        assert eventually(all_gave_one, 60), list(expected)

        def unwell() -> list[Mapping[str, Any]]:
            targets = [target for target in prometheus.targets() if target["health"] != "up"]
            return targets + [rule for rule in prometheus.rules() if rule["health"] != "ok"]

        # A scrape that takes longer than INTERVAL fails, and the rules of that moment with it.
        assert eventually(lambda: not unwell(), 30), unwell()
        check_sums(prometheus, kubectl)
        kubectl("delete", "job", "late")
        check_page(prometheus, kubectl)


def workload(kubectl: Kubectl) -> None:
    """A slice in use whose program tells its progress, a pod that waits, and two Jobs of a queue: one waits."""
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
             "spec": {"hard": {f"requests.{PREFIX}-mem": "200"}}}  # fmt: skip
    kubectl.create(
        quota, slice_pod("used", 4, 15, **nodes.on(nodes.first())), slice_pod("waits", 99), queued("job", 1)
    )
    kubectl.running("used")
    assert eventually(lambda: running(kubectl, "job", 1), 60)
    # It could run if nothing else did.
    kubectl.create(queued("late", len(inventory(nodes.first())["cards"])))
    kubectl.inside("used", "sh", "-c", SAYS)


@contextmanager
def busy(kubectl: Kubectl) -> Iterator[None]:
    """A program of the pod holds memory, and the driver says that it and its card compute while the block runs."""
    (card,) = held(kubectl, "used")
    kubectl.inside("used", "sh", "-c", "vgpu-probe hold 100 </dev/null >/dev/null 2>&1 &")
    (process,) = service.processes(str(kubectl.pod("used")["metadata"]["uid"]), "sleep 100000 & wait")
    simulate("process", str(process), card.card, "--busy-units", "5")
    simulate("busy", card.card, "--percent", "25")
    yield
    simulate("busy", card.card)


def simulate(*words: str) -> None:
    """Have the driver of the first node say this."""
    folder = ("--folder", "/var/lib/vgpu-sim")
    service.SYSTEM.inside(
        service.agent(nodes.first()), "vgpu", "simulate", *words, *folder, container="agent"
    )


def named_queries() -> Mapping[str, str]:
    """Of each query of a board, of each rule's series, and of each metric that an alert looks at: what it is for."""
    found = {
        f"{board.name}: {panel.title}: {query.legend}": runnable(query.expr, f"{5 * INTERVAL}s")
        for board in BOARDS
        for panel in board.panels()
        for query in panel.queries
    }
    found |= {f"rule {rule.record}": rule.record for rule in recording_rules()}
    return found | {f"{alert.name}: {name}": name for alert in ALERTS for name in metrics_in(alert.expr)}


def check_sums(prometheus: Prometheus, kubectl: Kubectl) -> None:
    """Both views of the ledger have the same sum, and the pods of this test are in them."""
    here = f'{{namespace="{kubectl.namespace}"}}'
    for query, expected in (
        ("sum(vgpu_namespace_granted_slices) == bool sum(vgpu_card_granted_slices)", 1),
        (f"vgpu_namespace_granted_slices{here}", 2),
        (f"vgpu_namespace_unplaced_pods{here}", 1),
        (f"vgpu:namespace_core_groups_busy:sum{here}", 5),
    ):
        assert eventually(partial(has_value, prometheus, query, expected), 30), prometheus.query(query)


def has_value(prometheus: Prometheus, query: str, expected: float) -> bool:
    """True if the query gives one series now, with this value."""
    return [float(series["value"][1]) for series in prometheus.query(query)] == [expected]


def check_page(prometheus: Prometheus, kubectl: Kubectl) -> None:
    """The page of `vgpu ui` shows a card's use as Prometheus has it, and the Job, its progress and a gang."""
    first = slice_pod("first", 1, 2, **nodes.on(nodes.first()))
    first["metadata"]["labels"] |= {"vgpu.io/group": "train", "vgpu.io/group-size": "2"}
    kubectl.create(first)
    (member,) = (each["metadata"]["name"] for each in pods(kubectl, "job"))
    kubectl.inside(member, "sh", "-c", SAYS)
    (card,) = held(kubectl, "used")
    with page_of("--prometheus", f"http://{prometheus.address}") as page:
        page.get_by_label("Name", exact=True).fill("used")
        row = page.locator(".row")
        uuids = [each["uuid"] for each in inventory(nodes.first())["cards"]]
        expect(row).to_have_count(1)
        shown = row.locator(".card").nth(uuids.index(card.card))
        assert eventually(partial(shows_use, prometheus, page, shown, card.card), 30)
        page.get_by_label("Name", exact=True).fill("")
        page.locator("nav a[data-view=jobs]").click()
        page.get_by_label("Namespace", exact=True).fill(kubectl.namespace)
        row = page.locator(".job")
        expect(row).to_have_count(1)
        row.locator("button").click()
        job = page.locator("#panel")
        expect(job).to_contain_text(f"{kubectl.namespace}, queue default")
        (found,) = (each for each in kubectl.items(JOBS) if each["metadata"]["name"] == "job")
        expect(job).to_contain_text(f"Running, {found['status']['active']} pod")
        # The page asks the engine every 10 s, and that reads what the agents say every few seconds.
        expect(job).to_contain_text("40 of 100 done", timeout=120_000)
        expect(page.locator("#source")).to_have_text("From the job engine, every 10 s.")
        page.locator("nav a[data-view=gangs]").click()
        expect(page.locator(".item")).to_contain_text("1 of 2 pods exist, 0 are bound")


def shows_use(prometheus: Prometheus, page: Page, shown: Locator, card: str) -> bool:
    """True if the page shows a card's use as Prometheus has it.

    It asks once, when the card is opened: if a scrape has just failed, there is no value of now.
    """
    shown.click()
    panel = page.locator("#panel")
    expect(panel.locator(".slice", has_text="used")).to_have_count(1)
    expect(panel).to_contain_text("Use of the last")
    said = panel.text_content() or ""
    panel.get_by_label("Close the card").click()
    labels = f'{{card="{card}"}}'
    used = f"vgpu_card_memory_used_bytes{labels} / vgpu_card_memory_bytes{labels}"
    values = {
        name: [round(float(series["value"][1]) * 100) for series in prometheus.query(query)]
        for name, query in (("computing", f"vgpu_card_busy_ratio{labels}"), ("memory used", used))
    }
    return all(found and f"{name}: now {found[0]} %" in said for name, found in values.items())


def quota_metrics(kubectl: Kubectl) -> str:
    """The namespace's ResourceQuotas as kube-state-metrics exports them."""
    return "".join(
        f'kube_resourcequota{{namespace="{kubectl.namespace}", resourcequota="{quota["metadata"]["name"]}",'
        f' resource="{resource}", type="{kind}"}} {amount}\n'
        for quota in kubectl.items(QUOTAS)
        for kind in ("hard", "used")
        for resource, amount in quota["status"].get(kind, {}).items()
    )


def owner_metrics(kubectl: Kubectl) -> str:
    """The controllers of the namespace's pods as kube-state-metrics exports them."""
    return "".join(
        f'kube_pod_owner{{namespace="{kubectl.namespace}", pod="{pod["metadata"]["name"]}",'
        f' owner_kind="{owner["kind"]}", owner_name="{owner["name"]}", owner_is_controller="true"}} 1\n'
        for pod in kubectl.items()
        for owner in pod["metadata"].get("ownerReferences", ())
        if owner.get("controller")
    )


def hcu_metrics() -> str:
    """Figures of the first node's cards as Hygon's hcu-exporter exports them."""
    return "".join(
        f'{name}{{node="{nodes.first()}", pcieBus_number="{card["pci"]}"}} 40\n'
        for card in inventory(nodes.first())["cards"]
        for name in ("hcu_temp", "hcu_power_usage", "hcu_usedmemory_bytes")
    )


@contextmanager
def exported(job: str, metrics: Callable[[], str]) -> Iterator[Mapping[str, Any]]:
    """A target that exports these metrics."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(metrics().encode())

        def log_message(self, *_: object) -> None:
            """Prometheus says what it could not scrape."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield {"targets": [f"127.0.0.1:{server.server_address[1]}"], "labels": {"job": job}}
        server.shutdown()
