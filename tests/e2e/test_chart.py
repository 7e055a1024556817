"""The product where helm has installed it: `helm test`, the page for a team, an upgrade and a rollback."""

import json
import os
import subprocess

import pytest

from hack.testbed.install import CHART, RELEASE
from tests.e2e import nodes, service, team_pages
from tests.e2e.kubectl import Kubectl
from tests.e2e.queued_jobs import queued
from tests.e2e.slices import held, inventory
from tests.e2e.test_restarts import life
from tests.e2e.waiting import eventually
from tests.e2e.workloads import slice_pod
from tests.requirement import require


def helm(verb: str, *arguments: str) -> str:
    """What helm prints for our release."""
    done = subprocess.run(
        ["helm", verb, *RELEASE, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(autouse=True)
def _installed_by_helm() -> None:
    releases = Kubectl("vgpu-system")("get", "secrets", "--selector=owner=helm,name=vgpu", "--output=name")
    require(releases, "needs a cluster where helm installed vgpu: make e2e ARGS=tests/e2e/test_chart.py")


def test_helm_test_is_given_a_slice() -> None:
    report = helm("test", "--logs", "--timeout=300s")
    assert "Phase:          Succeeded" in report
    assert "1023 MiB" in report, report


def test_slices_notice_neither_an_upgrade_nor_a_rollback(kubectl: Kubectl) -> None:
    kubectl.create(slice_pod("a", mem=4, cores=15))
    kubectl.running("a")
    before = life(kubectl, "a"), held(kubectl, "a")

    def drain() -> str | None:
        daemons = json.loads(service.SYSTEM("get", "daemonset", "vgpu-node", "--output=json"))
        (agent,) = [c for c in daemons["spec"]["template"]["spec"]["containers"] if c["name"] == "agent"]
        return next((e["value"] for e in agent["env"] if e["name"] == "VGPU_DRAIN_SECONDS"), None)

    node, *_ = (other for other in nodes.names() if other != kubectl.pod("a")["spec"]["nodeName"])
    spared, *left = (card["uuid"] for card in inventory(node)["cards"])
    own = [{"labels": {"kubernetes.io/hostname": node}, "excludeCards": [spared]}]
    given = ("--set=node.env.VGPU_DRAIN_SECONDS=1", f"--set-json=nodes={json.dumps(own)}")
    helm("upgrade", str(CHART), "--reset-then-reuse-values", *given)
    assert drain() == "1"
    settled()
    assert eventually(lambda: [card["uuid"] for card in inventory(node)["cards"]] == left, 30)
    helm("rollback")
    assert drain() is None
    settled()
    assert eventually(lambda: [card["uuid"] for card in inventory(node)["cards"]] == [spared, *left], 30)
    assert (life(kubectl, "a"), held(kubectl, "a")) == before
    assert eventually(lambda: kubectl.pod("a")["metadata"]["uid"] in holders(), 60)


def test_the_page_for_a_team_is_a_value_of_the_chart(kubectl: Kubectl) -> None:
    kubectl.create(slice_pod("holder", mem=2, cores=5, **nodes.on(nodes.first())))
    kubectl.running("holder")
    # It waits: the holder has a part of one of these cards.
    kubectl.create(queued("train", len(inventory(nodes.first())["cards"])))
    kubectl("create", "serviceaccount", "person")
    subject = f"--serviceaccount={kubectl.namespace}:person"
    kubectl("create", "rolebinding", "person", "--clusterrole=view", subject)
    token = kubectl("create", "token", "person").strip()
    helm("upgrade", str(CHART), "--reset-then-reuse-values", "--set=ui.enabled=true,ui.allowChanges=true")
    service.SYSTEM("rollout", "status", "deployment/vgpu-ui", "--timeout=300s")
    with team_pages.forwarded() as address:
        cookie = team_pages.logged_in(address, token)
        entries = [
            '"holder"', f'"use","{nodes.first()} {kubectl.namespace}"', '"page",{"use":false,"changes":true}',
            f'"job","{kubectl.namespace}/train"', '"place":1,',
        ]  # fmt: skip
        text = team_pages.stream(address, cookie, entries)
        assert '"vgpu-system"' not in text, "a namespace that the person may not read"
        csrf = json.loads(team_pages.ask(address, "/session", cookie)[2])["csrf"]
        change = json.dumps({"action": "cordon", "node": nodes.first(), "card": "any"})
        status, _, why = team_pages.ask(address, "/change", cookie, "POST", change, csrf)
        assert (status, f"system:serviceaccount:{kubectl.namespace}:person" in why) == (403, True), why
    kubectl("delete", "job", "train")
    helm("rollback")
    left = service.SYSTEM("get", "all", "--selector=app.kubernetes.io/component=ui", "--output=name")
    assert "deployment" not in left


def holders() -> set[str]:
    return {uid for _, uid, _ in service.held(service.leader())}


def settled() -> None:
    for workload in ("daemonset/vgpu-node", "deployment/vgpu-cluster"):
        service.SYSTEM("rollout", "status", workload, "--timeout=300s")
