"""docs/autoscaling.md: its rules and its autoscaler, on a real prometheus-adapter."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from device_plugin.kube.api import Kind
from hack.testbed.cluster import PROJECT
from tests.e2e import service
from tests.e2e.kubectl import Kubectl, KubectlError
from tests.e2e.nightly import serving
from tests.e2e.nightly.prometheus_adapter import CUSTOM_METRICS, adapting
from tests.e2e.prometheus import monitored, scraping
from tests.e2e.slices import held
from tests.e2e.test_monitoring import simulate
from tests.e2e.waiting import eventually
from tests.e2e.workloads import PREFIX
from tests.transcript import documents

PAGE = (PROJECT / "docs/autoscaling.md").read_text(encoding="utf-8")
(AUTOSCALER,) = documents(PAGE)
(RULES,) = documents(PAGE, "Where the figures come from")
AUTOSCALERS = Kind("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", dict)
MEMORY, COMPUTE = "vgpu_slice_memory_used_ratio", "vgpu_slice_compute_ratio"
# Two replicas fill one card, and the quota is at four.
SHARE, MOST = 50, 4
# Seconds: the controller looks every 15, at metrics that are some seconds old.
SOON = 90
BUSY_UNITS = 5
USE = """
test -e /tmp/use && exit
vgpu-probe hold {mib} </dev/null >/tmp/held 2>&1 &
echo $! >/tmp/use
until grep -q error /tmp/held; do sleep 0.1; done
grep hipSuccess /tmp/held
"""


@pytest.fixture
def metrics(kubectl: Kubectl, tmp_path: Path) -> Iterator[None]:
    """Prometheus scrapes the cluster, and the API server has the metrics of the page's rules."""
    with (
        scraping(tmp_path, monitored()) as prometheus,
        adapting(tmp_path, RULES, f"http://{prometheus.address}", kubectl.namespace),
    ):
        yield


def use(kubectl: Kubectl) -> None:
    """Every running replica uses 95 % of its slice's memory."""
    for name in serving.running(kubectl):
        (one,) = held(kubectl, name)
        kubectl.inside(name, "sh", "-c", USE.format(mib=one.mem_bytes * 95 // 100 >> 20))


def rest(kubectl: Kubectl) -> None:
    """No replica uses any memory of its slice."""
    for name in serving.running(kubectl):
        kubectl.inside(name, "sh", "-c", "kill $(cat /tmp/use)")


def wanted(kubectl: Kubectl) -> int:
    """How many replicas the autoscaler has asked for."""
    return int(serving.deployed(kubectl)["spec"]["replicas"])


def compute(kubectl: Kubectl, name: str) -> None:
    """The driver says that the replica's program runs work on BUSY_UNITS compute units."""
    (one,) = held(kubectl, name)
    (process,) = service.processes(str(kubectl.pod(name)["metadata"]["uid"]), "sleep 100000 & wait")
    simulate("process", str(process), one.card, "--busy-units", str(BUSY_UNITS))


def status(kubectl: Kubectl) -> dict[str, int]:
    """What the autoscaler found and asked for when it looked last."""
    found: dict[str, int] = kubectl.get(AUTOSCALERS, "serving")["status"]
    return found


def custom(kubectl: Kubectl, metric: str) -> dict[str, float]:
    """The metric of the namespace's pods, as the API server has it; empty while it has none."""
    path = f"{CUSTOM_METRICS}/namespaces/{kubectl.namespace}/pods/*/{metric}"
    try:
        items = json.loads(kubectl("get", "--raw", path))["items"]
    except KubectlError:
        return {}
    return {item["describedObject"]["name"]: _number(item["value"]) for item in items}


def _number(quantity: str) -> float:
    """The number that a quantity such as `166m` stands for."""
    return float(quantity.removesuffix("m")) / (1000 if quantity.endswith("m") else 1)


@pytest.mark.usefixtures("metrics")
def test_replicas_follow_the_use_up_to_what_cards_and_quota_give(kubectl: Kubectl) -> None:
    hard = f"requests.{PREFIX}-percent={MOST * SHARE}"
    kubectl("create", "quota", "cards", f"--hard={hard}")
    fillers = serving.fill(kubectl)
    body = serving.changed(serving.shown(), replicas=2, percent=SHARE)
    first = serving.create(kubectl, body)
    computing = min(first)
    compute(kubectl, computing)
    (units,) = {len(one.units) for one in held(kubectl, computing)}
    share = pytest.approx(BUSY_UNITS / units, abs=0.001)
    assert eventually(lambda: custom(kubectl, COMPUTE).get(computing) == share, SOON)
    assert custom(kubectl, MEMORY).get(computing) == 0

    # The cards are full: one more is asked for, and waits.
    use(kubectl)
    kubectl.apply(AUTOSCALER)
    assert eventually(lambda: serving.refusals(kubectl), SOON), kubectl("describe", "hpa")
    assert serving.running(kubectl) == first
    # The one that waits counts as idle: no more are asked for when the controller looks again.
    assert eventually(lambda: status(kubectl)["currentReplicas"] == 3, SOON)
    assert status(kubectl)["desiredReplicas"] == 3 == wanted(kubectl)

    # There is room: four run, and the quota refuses the fifth.
    kubectl.gone(*fillers)

    def more() -> bool:
        use(kubectl)
        return wanted(kubectl) > MOST and "exceeded quota" in serving.not_created(kubectl)

    assert eventually(more, 2 * SOON), kubectl("describe", "hpa")
    assert len(serving.running(kubectl)) == MOST

    # The page says how long it waits before it goes down.
    quick = {"spec": {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}}}}
    kubectl("patch", "hpa", "serving", "--type=merge", f"--patch={json.dumps(quick)}")
    rest(kubectl)
    least = AUTOSCALER["spec"]["minReplicas"]
    assert eventually(lambda: len(serving.running(kubectl)) == least == wanted(kubectl), SOON)
