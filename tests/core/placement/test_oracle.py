"""place() against brute force that reads only inventories and grants, on small mixed clusters."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations

import msgspec
import pytest

from device_plugin.core.contract.cards import Card, Inventory
from device_plugin.core.contract.grants import Grant
from device_plugin.core.ledger import Holder, Ledger
from device_plugin.core.placement import POLICIES, Placer, Refusal
from device_plugin.core.placement.workload import TargetWorkload
from device_plugin.core.requests import PodRequest, Request, Selector, Shape
from tests.builders.refusals import by_node
from tests.effort import TIMES

FAMILIES = ("hygon.com/dcu", "amd.com/gpu")
NODES = ("a", "b", "c")
EVENTS = 1500
REPEATABLE = ["", *(policy for policy in POLICIES if policy != "random")]


def mixed_card(rng: random.Random, uuid: str) -> Card:
    mem_mib, units = rng.choice([(16368, 16), (65520, 64), (4092, 4), (16368, 8)])
    groups = rng.choice([4, 8, 30, 38, 60])
    slices, model = rng.choice([1, 2, 4]), rng.choice("XY")
    healthy = rng.random() < 0.9
    return Card(
        uuid, rng.choice(FAMILIES), model, "0", mem_mib, units, groups, groups, 1, slices, -1, healthy=healthy
    )


def mixed_node(rng: random.Random, name: str) -> Inventory:
    cards = tuple(mixed_card(rng, f"{name}-{i}") for i in range(rng.randint(0, 3)))
    return Inventory(cards, serving=rng.random() < 0.9)


def mixed_request(rng: random.Random, pod: str) -> PodRequest:
    family = rng.choice(FAMILIES)
    containers = []
    for i in range(rng.choice([1, 1, 1, 2, 3])):
        cores = rng.choice([None, rng.randint(1, 40)])
        mem = rng.randint(1, 18) if cores is None else rng.choice([None, rng.randint(1, 18)])
        asked = Request(family, 0, mem, cores)
        if (kind := rng.random()) < 0.2:
            asked = Request(family, rng.randint(1, 3), max_slices=rng.choice((None, None, 2, 4)))
        elif kind < 0.4:
            asked = Request(family, percent=rng.choice((1, 5, 10, 25, 33, 50, 75, 100)))
        containers.append((f"c{i}", asked))
    if len(containers) == 1 and not containers[0][1].whole:
        containers = [
            (name, msgspec.structs.replace(asked, count=rng.choice((1, 1, 2, 3))))
            for name, asked in containers
        ]
    models = rng.choice([Selector()] * 3 + [Selector("X"), Selector("!X")])
    uuids = rng.choice([Selector()] * 3 + [Selector("!a-0,!b-0")])
    return PodRequest(pod, tuple(containers), models, uuids, rng.choice(REPEATABLE))


class Rest:
    """What brute force knows of one card: MiB, core groups, slices, and whether nobody was there before."""

    def __init__(self, node: str, card: Card, grants: Mapping[Holder, Grant]) -> None:
        slices = [s for g in grants.values() if g.node == node for s in g.slices() if s.card == card.uuid]
        self.card = card
        self.mib = card.mem_mib - sum(s.mem_mib for s in slices)
        self.cores = card.core_groups - sum(len(s.cores) for s in slices)
        self.slices = card.max_slices - len(slices)
        self.untouched = not slices

    def take(self, mib: int, cores: int, times: int) -> None:
        self.mib, self.cores, self.slices = (
            self.mib - mib * times,
            self.cores - cores * times,
            self.slices - times,
        )
        self.untouched = self.slices == self.card.max_slices


def size(card: Card, asked: Request) -> tuple[int, int]:
    """MiB and core groups as the docs define them, apart from the code."""
    if asked.whole:
        return card.mem_mib, card.core_groups
    if asked.percent:
        return max(1, asked.percent * card.mem_mib // 100), max(1, asked.percent * card.core_groups // 100)
    mem = asked.mem or -(-(asked.cores or 0) * card.units // card.core_groups)
    return mem * card.mem_mib // card.units, asked.cores or -(-mem * card.core_groups // card.units)


def ways(rests: list[Rest], asked: Request) -> Iterator[tuple[Rest, ...]]:
    wanted = [
        r for r in rests if r.card.family == asked.family and asked.max_slices in (None, r.card.max_slices)
    ]
    for chosen in combinations(wanted, asked.cards):
        sizes = [size(r.card, asked) for r in chosen]
        if all(
            mib <= r.mib and cores <= r.cores and r.slices > 0 and (r.untouched or not asked.whole)
            for r, (mib, cores) in zip(chosen, sizes, strict=True)
        ):
            yield chosen


def possible(rests: list[Rest], requests: list[Request]) -> bool:
    if not requests:
        return True
    asked, *others = requests
    for chosen in ways(rests, asked):
        for rest in chosen:
            rest.take(*size(rest.card, asked), 1)
        found = possible(rests, others)
        for rest in chosen:
            rest.take(*size(rest.card, asked), -1)
        if found:
            return True
    return False


def possible_on(node: str, known: Inventory, grants: Mapping[Holder, Grant], request: PodRequest) -> bool:
    rests = [
        Rest(node, card, grants)
        for card in known.cards
        if card.healthy and request.models.accepts_model(card.model) and request.uuids.accepts(card.uuid)
    ]
    return known.serving and possible(rests, [asked for _, asked in request.containers])


def assert_obeys(grant: Grant, request: PodRequest, known: Inventory) -> None:
    cards = {card.uuid: card for card in known.cards}
    assert list(grant.containers) == [name for name, _ in request.containers]
    for name, asked in request.containers:
        slices = grant.containers[name]
        assert len({s.card for s in slices}) == asked.cards
        for s in slices:
            mib, cores = size(cards[s.card], asked)
            # A slice in percent may be rounded up.
            most = max(cores, -(-(asked.percent or 0) * cards[s.card].core_groups // 100))
            assert s.mem_mib == mib
            assert cores <= len(s.cores) <= most
        assert all(s.cores[-1] < cards[s.card].core_groups for s in slices)
    assert Grant.decode(grant.encode()) == grant


def changed(rng: random.Random, name: str, known: Inventory) -> Inventory:
    kind = rng.random()
    if kind < 0.4:
        return replace(
            known, cards=tuple(msgspec.structs.replace(c, healthy=rng.random() < 0.9) for c in known.cards)
        )
    if kind < 0.7:
        return replace(known, serving=not known.serving)
    if kind < 0.9:
        return replace(known, cards=tuple(rng.sample(known.cards, max(0, len(known.cards) - 1))))
    return mixed_node(rng, name)


@pytest.mark.no_cover
@pytest.mark.parametrize("seed", range(3 * TIMES))
def test_place_finds_a_grant_exactly_when_there_is_one_and_never_an_overlapping_one(seed: int) -> None:
    rng = random.Random(seed)
    ledger, placer, known = Ledger(), None, {name: mixed_node(rng, name) for name in NODES}
    for name, cards in known.items():
        ledger.set_node(name, cards)
    placer, target = Placer(ledger, offered=POLICIES), TargetWorkload(half_life=100)
    answers = {Grant: 0, Refusal: 0}
    for i in range(EVENTS):
        event = rng.random()
        if event < 0.6:
            request, nodes = mixed_request(rng, f"p{i}"), rng.choice([None, None, ("a", "b"), ("c", "ghost")])
            answer = placer.place(request, nodes)
            answers[type(answer)] += 1
            if (shape := Shape.of(request)) is not None:
                target.add(shape)
            assert placer.place(request, nodes) == answer, "the same question has the same answer"
            feasible = {
                name
                for name in known
                if name in (nodes or NODES) and possible_on(name, known[name], ledger.grants(), request)
            }
            if isinstance(answer, Grant):
                assert answer.node in feasible
                assert_obeys(answer, request, known[answer.node])
                assert ledger.hold(answer) == ()
            else:
                assert not feasible, answer.text
                looked_at = [name for name in known if name in (nodes or NODES)]
                assert sum(answer.cards.values()) == sum(len(known[name].cards) for name in looked_at)
                assert set(by_node(answer, looked_at if nodes is None else nodes)) == set(
                    looked_at if nodes is None else nodes
                )
        elif event < 0.61:
            placer.learn(target.frequent()[:12])
        elif event < 0.88:
            if ledger.grants():
                ledger.release(rng.choice(sorted(ledger.grants())))
        elif event < 0.97:
            name = rng.choice(NODES)
            known[name] = changed(rng, name, known[name]) if name in known else mixed_node(rng, name)
            ledger.set_node(name, known[name])
        else:
            name = rng.choice(NODES)
            known.pop(name, None)
            ledger.drop_node(name)
    assert min(answers.values()) > 50, answers
