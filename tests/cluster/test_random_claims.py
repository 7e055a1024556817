"""Pods by claims and by limits, while leaders are killed between any two writes: claims say what grants say."""

from collections.abc import Mapping, Sequence
from random import Random

import pytest

from device_plugin.core.contract.claims import FINALIZER, Claim, device_name, read_claim
from device_plugin.core.pods import Pod
from device_plugin.kube.errors import ConflictError, UnknownError
from tests.builders.cards import inventory, preparing
from tests.builders.claims import claim, claim_pod
from tests.cluster.test_claim_writes import CrashError
from tests.cluster.world import Replica, World

NODES = ("n1", "n2", "n3")
STEPS = 60


class Cluster:
    """A world whose leader may be killed at any write, with as much of Kubernetes' claim controller as matters."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = World(claims=True)
        for name in NODES[1:]:
            self.world.node(name, preparing(name))
        self.leader = self.world.one
        self.leader.view.node_news.sync(self.world.api.nodes())
        self.api = self.world.api
        self.names = 0

    def step(self) -> None:
        number = self.random.random()
        if number < 0.35:
            self.create()
        elif number < 0.45:
            self.end(list(self.api.by_name.values()))
        elif number < 0.5:
            self.turns(3)
        else:
            self.place()

    def serve_the_rest(self) -> None:
        """Most bound pods end, and all others for which there is room then are bound: nothing is stuck."""
        for pod in [pod for pod in self.api.by_name.values() if pod.node]:
            if self.random.random() < 0.7:
                self.end([pod])
        for pod in [pod for pod in self.api.by_name.values() if not pod.node]:
            if node := self.leader.ask(pod):
                assert self.leader.bind(pod, node) == ""

    def create(self) -> None:
        self.names += 1
        name = f"p{self.names}"
        mem = self.random.choice((2, 4, 8))
        if self.random.random() < 0.3:
            self.world.pod(name, mem, None)
            return
        count = self.random.choice((1, 1, 2))
        made = claim(f"c-{name}", {"memory": f"{mem}Gi"}, pod_uid=f"uid-{name}", count=count)
        if self.random.random() < 0.7:  # as the policy makes it
            made["metadata"]["finalizers"] = [FINALIZER]
        self.api.put_claim(made)
        self.api.put(claim_pod(name, f"c-{name}"))

    def end(self, pods: Sequence[Pod]) -> None:
        """One of the pods, if there are any, ends; the claim controller frees and deletes its claim."""
        if not pods:
            return
        gone = self.random.choice(pods)
        self.api.end(gone)
        for stored in (gone.claims or {}).values():
            self.api.remove_claim(stored)

    def place(self) -> None:
        """kube-scheduler tries a pod, and anything may fail meanwhile."""
        waiting = [pod for pod in self.api.by_name.values() if not pod.node]
        if not waiting:
            return
        pod = self.random.choice(waiting)
        node = self.leader.ask(pod)
        if not node:
            return
        failure = self.random.choice(
            ("", "", "crash", "crash bind", "lost", "lost bind", "late bind", "conflict")
        )
        try:
            self._failing(failure)
            self.leader.bind(pod, node)
        except CrashError:
            self.change_leader()
        finally:
            self.api.on_claim = self.api.after_claim = lambda _: None
            self.api.on_bind = None

    def _failing(self, what: str) -> None:
        at = self.random.choice(("", "status"))

        def claim_write(subresource: str) -> None:
            if subresource == at:
                raise {"crash": CrashError, "lost": UnknownError, "conflict": ConflictError}[what]("it fails")

        def bind(pod: Pod, node: str, annotations: Mapping[str, str]) -> None:
            if what != "late bind":
                self.api.land(pod, node, annotations)
            raise CrashError if what == "crash bind" else UnknownError("read timed out")

        if what in ("crash", "lost"):
            self.api.after_claim = claim_write
        elif what == "conflict":
            self.api.on_claim = claim_write
        elif what:
            self.api.on_bind = bind

    def change_leader(self) -> None:
        self.api.watchers.clear()
        self.api.on_claim = self.api.after_claim = lambda _: None
        self.api.on_bind = None
        self.leader = Replica(self.api, self.world.clock, f"vgpu-{self.names}", claims=True)
        self.leader.follow()
        self.leader.lead()

    def turns(self, seconds: int) -> None:
        for _ in range(seconds):
            self.world.clock.now += 1.0
            self.leader.renew()
            self.leader.turn()

    def check(self) -> None:
        """Each claim is allocated exactly if its pod holds a grant with these cards."""
        cards = {card.uuid: card for name in NODES for card in inventory(name).cards}
        given: dict[str, set[tuple[str, str]]] = {}
        for pod in self.api.by_name.values():
            grant = pod.grant() if pod.node else None
            for container, uid in grant.claims.items() if grant else ():
                assert uid not in given
                slices = grant.containers[container] if grant else ()
                given[uid] = {(pod.node, device_name(cards[each.card])) for each in slices}
                assert self.claim(uid).reserved == (pod.uid,)
        shown = {
            found.uid: {(device.pool, device.device) for device in found.devices}
            for found in map(read_claim, self.api.claims.values())
            if found.devices
        }
        assert shown == given

    def claim(self, uid: str) -> Claim:
        return next(found for found in map(read_claim, self.api.claims.values()) if found.uid == uid)


@pytest.mark.parametrize("seed", range(12))
def test_claims_agree_with_grants_whatever_was_interrupted(seed: int) -> None:
    cluster = Cluster(seed)
    for _ in range(STEPS):
        cluster.step()
    cluster.turns(10)
    cluster.check()
    cluster.serve_the_rest()
    cluster.check()
    ledger = cluster.leader.view.ledger
    for name in NODES:
        node = ledger.node(name)
        assert node is not None
        assert all(0 <= card.free_mib <= card.card.mem_mib for card in node.cards)
