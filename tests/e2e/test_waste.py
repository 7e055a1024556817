"""A pod that holds 12 GiB and uses 0.5, on a real cluster: first in `vgpu waste`, on the page, and in Prometheus."""

from pathlib import Path
from typing import Any

from playwright.sync_api import expect

from tests.e2e import nodes, service
from tests.e2e.kubectl import Kubectl
from tests.e2e.pages import opened
from tests.e2e.prometheus import Prometheus, monitored, scraping
from tests.e2e.slices import held
from tests.e2e.test_kubectl_plugin import listed
from tests.e2e.test_monitoring import simulate
from tests.e2e.waiting import eventually
from tests.e2e.workloads import slice_pod

HOLDS = "vgpu-probe hold {} </dev/null >/dev/null 2>&1 &"
# What each pod asks for, in GiB, and what it uses of it, in MiB.
PODS = {"hoards": (12, 512), "little": (4, 256), "uses": (2, 1800)}
# Seconds for which the agents must have followed a slice, or it must have been idle.
SECONDS = 15


def test_the_pod_that_holds_most_and_uses_least_is_first(kubectl: Kubectl) -> None:
    for name, (mem, _) in PODS.items():
        kubectl.create(slice_pod(name, mem, 10, **nodes.on(nodes.first())))
    kubectl.running(*PODS)
    for name, (_, mib) in PODS.items():
        kubectl.inside(name, "sh", "-c", HOLDS.format(mib))

    def waste() -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = listed("waste", "-n", kubectl.namespace, "--idle", f"{SECONDS}s")[
            "waste"
        ]
        return rows

    def names() -> list[str]:
        return [row["owner"]["name"] for row in waste()]

    assert eventually(lambda: names() == ["hoards", "little"], 60 + SECONDS), waste()
    (found,) = waste()[0]["slices"]
    assert found["memMiB"] == held(kubectl, "hoards")[0].mem_bytes >> 20
    assert 512 <= found["peakBytes"] / (1 << 20) < 600
    assert found["observedSeconds"] >= SECONDS


def test_command_page_and_prometheus_agree_on_what_is_used(kubectl: Kubectl, tmp_path: Path) -> None:
    for name, (mem, mib) in PODS.items():
        kubectl.create(slice_pod(name, mem, 10, **nodes.on(nodes.first())))
        kubectl.running(name)
        kubectl.inside(name, "sh", "-c", HOLDS.format(mib))
    with scraping(tmp_path, monitored()) as prometheus:
        url = f"http://{prometheus.address}"

        def agreed() -> bool:
            found = used(kubectl)
            enough = all(found.get(name, 0) >= mib << 20 for name, (_, mib) in PODS.items())
            return enough and found == used(kubectl, "--prometheus", url) == scraped(prometheus, kubectl)

        assert eventually(agreed, 60), (used(kubectl), scraped(prometheus, kubectl))
        with opened("-n", kubectl.namespace, "--prometheus", url) as page:
            page.locator("#owners > summary").click()
            owners = page.locator("#owner-rows tr")
            # The page asks every 10 s. Each GiB of a slice is a card's unit, which may be a MiB smaller.
            expect(owners).to_have_count(len(PODS), timeout=60_000)
            expect(owners.first).to_contain_text(f"hoards{kubectl.namespace}, Pod11.5 GiB12 GiB")


def used(kubectl: Kubectl, *options: str) -> dict[str, int]:
    """The bytes that each pod uses of its slice, by `vgpu top`; pods of which it is not known are left out."""
    found = listed("top", "-n", kubectl.namespace, *options)["slices"]
    return {use["pod"]: use["usedBytes"] for use in found if use["usedBytes"] is not None}


def scraped(prometheus: Prometheus, kubectl: Kubectl) -> dict[str, int]:
    """The bytes that each pod uses of its slice, by the metric of the agents in Prometheus."""
    found = prometheus.query(f'vgpu_slice_memory_used_bytes{{namespace="{kubectl.namespace}"}}')
    return {series["metric"]["pod"]: int(series["value"][1]) for series in found}


def test_a_slice_is_idle_from_when_the_driver_says_that_it_computes_no_more(kubectl: Kubectl) -> None:
    kubectl.create(slice_pod("rests", 2, 10, **nodes.on(nodes.first())))
    kubectl.running("rests")
    kubectl.inside("rests", "sh", "-c", HOLDS.format(1800))
    (card,) = held(kubectl, "rests")
    (process,) = service.processes(str(kubectl.pod("rests")["metadata"]["uid"]), "sleep 100000 & wait")

    def idle() -> float | None:
        (use,) = (use for use in listed("top", "-n", kubectl.namespace)["slices"] if use["pod"] == "rests")
        found: float | None = use["idleSeconds"]
        return found

    simulate("process", str(process), card.card, "--mib", "1800", "--busy-units", "5")
    # A text of the agent may be a second old.
    assert eventually(lambda: (seconds := idle()) is not None and seconds < 2, 30), idle()
    simulate("process", str(process), card.card, "--mib", "1800", "--busy-units", "0")
    assert eventually(lambda: (idle() or 0) > SECONDS, 30 + SECONDS), idle()
