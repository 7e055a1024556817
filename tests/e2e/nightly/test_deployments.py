"""docs/rolling-updates.md and docs/node-drain.md: their YAML and commands, run.

That a node loses its power and comes back is in tests/e2e/test_power.py.
"""

import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from hack.testbed.cluster import PROJECT
from tests.e2e import nodes
from tests.e2e.kubectl import Kubectl, KubectlError
from tests.e2e.machines import Machines
from tests.e2e.nightly import serving
from tests.e2e.slices import cards, check_disjoint, held
from tests.e2e.waiting import eventually
from tests.e2e.workloads import PREFIX
from tests.transcript import commands

NODE_DRAIN = (PROJECT / "docs/node-drain.md").read_text(encoding="utf-8")
DEPLOYMENT = serving.shown()
REPLICAS = DEPLOYMENT["spec"]["replicas"]
DEFAULT = serving.with_default_strategy(DEPLOYMENT)
RECREATED = serving.changed(DEPLOYMENT, replicas=1, percent=100)
RECREATED["spec"]["strategy"] = {"type": "Recreate"}


@pytest.fixture
def full(kubectl: Kubectl) -> Kubectl:
    """kubectl in a namespace whose pods hold all cards of the cluster but one."""
    serving.fill(kubectl)
    return kubectl


@pytest.fixture
def uncordoned() -> Iterator[None]:
    """All nodes take pods when the test ends."""
    yield
    for node in nodes.names():
        Kubectl("")("uncordon", node)


def update(kubectl: Kubectl) -> None:
    """Begin an update, which replaces all pods."""
    kubectl("rollout", "restart", serving.NAME)


def stands_still(kubectl: Kubectl, before: set[str]) -> None:
    """Assert that the update does not end and that all pods of before go on."""
    with pytest.raises(KubectlError, match="timed out"):
        kubectl("rollout", "status", serving.NAME, "--timeout=10s")
    assert serving.running(kubectl) == before


def goes_through(kubectl: Kubectl, before: set[str]) -> None:
    """Return once the update has replaced all pods of before."""
    kubectl("rollout", "status", serving.NAME, "--timeout=180s")
    assert eventually(lambda: not serving.running(kubectl) & before, 60)
    check_disjoint([one for name in serving.running(kubectl) for one in held(kubectl, name)])


def test_on_full_cards_an_update_stands_still_by_default_and_goes_through_as_the_page_has_it(
    full: Kubectl,
) -> None:
    before = serving.create(full, DEFAULT)
    update(full)
    assert eventually(lambda: serving.refusals(full), 60)
    stands_still(full, before)
    full.apply(DEPLOYMENT)
    goes_through(full, before)


def test_at_the_end_of_the_quota_likewise(kubectl: Kubectl) -> None:
    kubectl("create", "quota", "cards", f"--hard=requests.{PREFIX}-slices={REPLICAS}")
    before = serving.create(kubectl, DEFAULT)
    update(kubectl)
    assert eventually(lambda: "exceeded quota" in serving.not_created(kubectl), 60)
    stands_still(kubectl, before)
    kubectl.apply(DEPLOYMENT)
    goes_through(kubectl, before)


@pytest.mark.parametrize(
    "body",
    [serving.changed(DEFAULT, replicas=4, percent=25), RECREATED],
    ids=["four replicas, by default", "one replica, Recreate"],
)
def test_updates_that_go_through_on_full_cards(full: Kubectl, body: dict[str, Any]) -> None:
    before = serving.create(full, body)
    update(full)
    goes_through(full, before)


@pytest.mark.usefixtures("uncordoned")
def test_a_drained_nodes_pods_are_made_again_on_others_and_their_files_go(
    kubectl: Kubectl, machines: Machines
) -> None:
    before = serving.create(kubectl, DEPLOYMENT)
    pods = [kubectl.pod(name) for name in sorted(before)]
    node = pods[0]["spec"]["nodeName"]
    gone = [one["metadata"] for one in pods if one["spec"]["nodeName"] == node]
    drain, uncordon = (shlex.split(line.replace("NODE", node)) for line in commands(NODE_DRAIN))
    assert (drain[:2], uncordon[:2]) == (["kubectl", "drain"], ["kubectl", "uncordon"])
    Kubectl("")(*drain[1:])
    kubectl("rollout", "status", serving.NAME, "--timeout=180s")
    after = serving.running(kubectl)
    assert len(after) == REPLICAS
    assert not after & {one["name"] for one in gone}
    slices = [one for name in after for one in held(kubectl, name)]
    check_disjoint(slices)
    known = cards()
    assert node not in {known[one.card]["node"] for one in slices}

    def files() -> str:
        names = " ".join(f"-e {one['uid']}" for one in gone)
        return machines.run(node, "sh", "-c", f"grep -rl {names} /var/lib/vgpu /run/cdi || true").strip()

    assert eventually(lambda: not files(), 10), files()
    Kubectl("")(*uncordon[1:])
    assert "unschedulable" not in nodes.get(node)["spec"]
