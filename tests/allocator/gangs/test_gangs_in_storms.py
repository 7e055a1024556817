"""Gangs in random events: all or nothing until one is bound, and each gets its turn."""

import random

import pytest

from device_plugin.core.gang import BINDING_SECONDS
from device_plugin.core.pods import Pod
from tests.cluster.gang_pods import member, more_nodes
from tests.cluster.world import RESERVATION_SECONDS, Replica, World, refuse

ALL = [16368, 16368]
WAITS = "group train waits for 1 more pod (2 of 3 exist)"


class Storm:
    """Gangs that come, are asked for, bound and end in random order, beside pods of their own."""

    def __init__(self, world: World, rng: random.Random) -> None:
        self.world, self.one, self.rng = world, world.one, rng
        self.sizes = {f"gang-{number}": rng.randint(1, 8) for number in range(12)}
        self.born = 0

    def live(self, group: str) -> list[Pod]:
        pods = self.world.api.by_name.values()
        return [made for made in pods if made.label("vgpu.io/group") == group and not made.ended]

    def create(self, group: str) -> None:
        """One more pod, while the gang lacks one."""
        if len(self.live(group)) < self.sizes[group]:
            self.born += 1
            size = self.sizes[group]
            self.world.api.put(member(f"p{self.born}", size, group, mem=self.rng.choice([4, 8]), cores=15))

    def attempt(self, made: Pod) -> None:
        """What kube-scheduler does with a pod: it asks, and binds most of those that have a node."""
        nodes = self.rng.sample(["n1", "n2"], self.rng.choice([1, 2, 2, 2]))
        node = self.one.ask(made, *nodes)
        if node and self.rng.random() < 0.7:
            self.world.api.on_bind = refuse if self.rng.random() < 0.1 else None
            self.one.bind(made, node)
            self.world.api.on_bind = None

    def event(self) -> None:
        kind, group = self.rng.random(), self.rng.choice(list(self.sizes))
        pods = self.live(group)
        unbound, bound = ([p for p in pods if bool(p.node) is placed] for placed in (False, True))
        if kind < 0.3:
            self.create(group)
        elif kind < 0.8 and unbound:
            self.attempt(self.rng.choice(unbound))
        elif kind < 0.9 and pods:
            self.world.api.end(self.rng.choice(pods))
        elif kind < 0.97 and len(bound) == self.sizes[group]:
            for made in bound:
                self.world.api.end(made)
        elif kind >= 0.97:
            self.one.wait(self.rng.choice([1.0, RESERVATION_SECONDS, BINDING_SECONDS]))
            self.one.housekeeping.step()

    def check(self) -> None:
        """A gang of which nobody is bound holds slices for all of its size, or none."""
        held = self.one.view.ledger.grants()
        for group, size in self.sizes.items():
            pods = self.live(group)
            if not any(made.node for made in pods):
                assert sum(made.uid in held for made in pods) in (0, size), group
        assert {
            conflict for grant in held.values() for conflict in self.one.view.ledger.conflicts(grant)
        } == set()


@pytest.mark.no_cover
def test_whatever_happens_a_gang_holds_all_or_nothing_until_it_is_bound(
    world: World, rng: random.Random
) -> None:
    more_nodes(world, "n2")
    storm = Storm(world, rng)
    for _ in range(2000):
        storm.event()
        storm.check()


@pytest.mark.no_cover
def test_gangs_that_each_fit_alone_all_get_their_turn_whoever_leads(
    world: World, one: Replica, rng: random.Random
) -> None:
    more_nodes(world, "n2")
    storm = Storm(world, rng)
    for group in storm.sizes:
        for _ in range(storm.sizes[group]):
            storm.create(group)
    for _ in range(100 * storm.born):
        waiting = [made for made in world.api.by_name.values() if not made.node]
        if not waiting:
            break
        if rng.random() < 0.05:
            world.api.watchers.clear()
            one = Replica(world.api, world.clock)
            one.follow()
            one.lead()
        made = rng.choice(waiting)
        node = one.ask(made)
        if node:
            assert one.bind(made, node) == ""
        mates = storm.live(made.label("vgpu.io/group"))
        if all(mate.node for mate in mates):
            for mate in mates:
                world.api.end(mate)
    assert not world.api.by_name
