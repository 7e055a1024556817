"""place_all(): everybody or nobody, and nobody leaves a trace."""

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_plugin.core import gang
from device_plugin.core.contract.grants import Grant
from device_plugin.core.contract.reasons import Reason
from device_plugin.core.gang import Member, place_all
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.ledger import Holding, Ledger
from device_plugin.core.placement import Placer, Refusal
from device_plugin.core.placement.fit import at_most
from device_plugin.core.rearrange.planner import size
from device_plugin.core.requests import PodRequest, Request
from tests.builders.cards import FAMILY, inventory
from tests.builders.requests import random_request, slice_request, whole_request

NODES = ("a", "b", "c")
ROOM = HostAmounts(cpu_milli=8000, memory_mib=8192)


class Cluster:
    """A few nodes with CPU and memory, and one placer."""

    def __init__(self, nodes: Sequence[str] = NODES, cards: int = 1) -> None:
        self.ledger = Ledger()
        for name in nodes:
            self.ledger.set_node(name, inventory(name, cards), ROOM)
        self.placer = Placer(self.ledger)

    def place(self, *members: Member) -> Sequence[Grant] | Refusal:
        return place_all(members, self.placer, self.ledger)

    def one_by_one(self, requests: Sequence[PodRequest]) -> bool:
        """True if each finds a place after those before it; all of them stay there."""
        for request in requests:
            grant = self.placer.find(request)
            if grant is None:
                return False
            self.ledger.hold(grant, request.host)
        return True

    def held(self) -> object:
        """Everything that a transaction could leave behind."""
        return dict(self.ledger.holdings()), [self.ledger.node(name) for name in self.ledger.nodes()]


def alike(count: int, request: PodRequest) -> list[Member]:
    return [Member(replace(request, pod=f"p{i}")) for i in range(count)]


requests = st.builds(
    lambda seed, pod, cpu: replace(random_request(random.Random(seed), f"p{pod}"), host=HostAmounts(cpu, 64)),
    st.integers(0, 10_000),
    st.integers(0, 99),
    st.sampled_from([0, 500, 3000]),
)
gangs = st.lists(requests, min_size=1, max_size=8, unique_by=lambda request: request.pod)
crowds = st.lists(requests, max_size=5, unique_by=lambda request: request.pod)


@given(crowd=crowds, gang=gangs)
def test_all_are_held_or_nothing_has_changed(crowd: list[PodRequest], gang: list[PodRequest]) -> None:
    cluster = Cluster()
    cluster.one_by_one([replace(request, pod=f"before-{request.pod}") for request in crowd])
    before = cluster.held()
    answer = cluster.place(*map(Member, gang))
    if isinstance(answer, Refusal):
        assert cluster.held() == before
        assert answer.text
        return
    assert {grant.pod for grant in answer} == {request.pod for request in gang}
    for request in gang:
        grant = cluster.ledger.grant(request.pod)
        assert grant is not None
        assert grant in answer
        assert cluster.ledger.conflicts(grant) == ()
        assert cluster.ledger.holding(request.pod) == Holding.of(grant, request.host)
    for name in NODES:
        node = cluster.ledger.node(name)
        assert node is not None
        assert min(node.left.cpu_milli, node.left.memory_mib) >= 0


@given(crowd=crowds, gang=gangs)
def test_it_finds_what_placing_one_by_one_the_largest_first_finds(
    crowd: list[PodRequest], gang: list[PodRequest]
) -> None:
    together, alone = Cluster(), Cluster()
    for cluster in (together, alone):
        cluster.one_by_one([replace(request, pod=f"before-{request.pod}") for request in crowd])
    fits = alone.one_by_one(sorted(gang, key=lambda request: (-size(request), request.pod)))
    assert isinstance(together.place(*map(Member, gang)), Refusal) is not fits


asks = st.one_of(
    st.builds(Request, st.just(FAMILY), st.just(0), st.integers(1, 12), st.integers(1, 40)),
    st.builds(Request, st.just(FAMILY), st.integers(1, 2)),
)


@given(crowd=crowds, asked=asks, cpu=st.sampled_from([0, 1000, 3000]), count=st.integers(1, 6))
def test_pods_that_ask_alike_are_placed_whenever_any_choice_of_nodes_holds_them_all(
    crowd: list[PodRequest], asked: Request, cpu: int, count: int
) -> None:
    cluster = Cluster(cards=2)
    cluster.one_by_one([replace(request, pod=f"before-{request.pod}") for request in crowd])
    request = PodRequest("p", (("main", asked),), host=HostAmounts(cpu))
    possible = any(fits_so(cluster, request, chosen) for chosen in product(NODES, repeat=count))
    assert isinstance(cluster.place(*alike(count, request)), Refusal) is not possible


def fits_so(cluster: Cluster, request: PodRequest, chosen: Sequence[str]) -> bool:
    """True if one pod like it fits on each of the `chosen` nodes; nothing is kept."""
    if list(chosen) != sorted(chosen):
        return False  # whoever asks alike may change places
    with cluster.ledger.transaction():
        for number, node in enumerate(chosen):
            grant = cluster.placer.find(replace(request, pod=f"try-{number}"), (node,))
            if grant is None:
                return False
            cluster.ledger.hold(grant, request.host)
    return True


@given(crowd=crowds, request=requests)
def test_no_more_fit_than_the_bound_says(crowd: list[PodRequest], request: PodRequest) -> None:
    cluster = Cluster()
    cluster.one_by_one([replace(one, pod=f"before-{one.pod}") for one in crowd])
    cluster.placer.table.refresh()
    bound = at_most(cluster.placer.table, request)
    assert at_most(cluster.placer.table, request, ("a", "b")) <= bound
    copies = [replace(request, pod=f"copy-{i}") for i in range(bound + 1)]
    assert not cluster.one_by_one(copies)


def test_the_largest_go_first() -> None:
    cluster = Cluster(("a", "b"))
    small = [Member(slice_request(f"a{i}", 4, 15)) for i in range(4)]
    answer = cluster.place(*small, Member(whole_request("z", 1)))
    assert not isinstance(answer, Refusal)
    assert answer[0].pod == "z"


def test_of_equally_large_ones_those_with_the_fewest_nodes_go_first() -> None:
    cluster = Cluster(("a", "b"))
    anywhere, bound = Member(whole_request("a", 1)), Member(whole_request("z", 1), ("a",))
    answer = cluster.place(anywhere, bound)
    assert not isinstance(answer, Refusal)
    assert {grant.pod: grant.node for grant in answer} == {"a": "b", "z": "a"}


def test_a_gang_that_is_too_large_is_told_for_how_many_there_is_room() -> None:
    answer = Cluster().place(*alike(13, slice_request("p", 4, 15)))
    assert isinstance(answer, Refusal)
    assert (answer.text, answer.main) == ("room for 12 of 13 pods", Reason.GANG_ROOM)


def test_a_gang_of_which_nobody_fits_is_told_why() -> None:
    answer = Cluster().place(*alike(2, slice_request("p", 17)))
    assert isinstance(answer, Refusal)
    assert answer.main is Reason.TOO_LARGE


def test_hosts_count_for_each_of_them() -> None:
    asked = slice_request("p", 1, 1, host=HostAmounts(cpu_milli=4000))
    assert not isinstance(Cluster().place(*alike(6, asked)), Refusal)
    answer = Cluster().place(*alike(7, asked))
    assert isinstance(answer, Refusal)
    assert answer.text == "room for 6 of 7 pods"


@pytest.mark.parametrize(("count", "fits"), [(3, True), (4, False)])
def test_with_node_score_each_goes_to_a_node_of_its_own(count: int, *, fits: bool) -> None:
    cluster = Cluster()
    answer = cluster.place(*alike(count, slice_request("p", 1, 1, policy="node-score")))
    assert isinstance(answer, Refusal) is not fits
    if not isinstance(answer, Refusal):
        assert {grant.node for grant in answer} == set(NODES)


def test_pods_of_many_containers_are_looked_at_for_a_second_or_two(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(cards=2)
    pair = PodRequest("p", tuple((name, Request(FAMILY, mem=4)) for name in ("a", "b")))
    assert not isinstance(cluster.place(*alike(6, pair)), Refusal)
    monkeypatch.setattr(gang, "LOOKS", 5)
    cluster = Cluster(cards=2)
    before = cluster.held()
    answer = cluster.place(*alike(6, pair))
    assert isinstance(answer, Refusal)
    assert answer.text == "room for 2 of 6 pods: the search for a place for all containers was too long"
    assert cluster.held() == before
