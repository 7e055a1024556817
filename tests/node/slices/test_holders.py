"""Who holds which tickets: one look at the kubelet serves many, and never longer than it is true."""

import threading
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_plugin.core.machine import Holder, KubeletError
from device_plugin.node.slices.holders import Holders
from tests.builders.cards import CORES, MEM


class Kubelet:
    """Gives tickets to pods as a kubelet does: Allocate first, then it shows them."""

    def __init__(self) -> None:
        self.shown: dict[tuple[str, str], dict[str, frozenset[str]]] = {}
        self.looks = 0
        self.error = ""
        self.holders = Holders(self)

    def admit(self, pod: str, **tickets: str) -> None:
        """Tickets of a resource by its tail, as letters."""
        for tail, ids in tickets.items():
            self.holders.allocate(f"hygon.com/dcu-{tail}", list(ids))
            self.shown.setdefault((pod, "main"), {})[f"hygon.com/dcu-{tail}"] = frozenset(ids)

    def who(self, resource: str, ids: str, *, anew: bool = False) -> list[str]:
        return [holder.pod for holder in self.holders.of(resource, frozenset(ids), anew=anew)]

    def devices(self) -> Mapping[str, frozenset[str]]:
        return {}

    def list(self) -> Sequence[Holder]:
        self.looks += 1
        if self.error:
            raise KubeletError(self.error)
        return [
            Holder("default", pod, container, dict(held)) for (pod, container), held in self.shown.items()
        ]


def test_one_look_serves_all_that_were_admitted_before_it() -> None:
    kubelet = Kubelet()
    kubelet.admit("a", mem="ab", cores="x")
    kubelet.admit("b", mem="cd", cores="yz")
    found = [
        kubelet.who(*asked) for asked in ((CORES, "x"), (MEM, "ab"), (CORES, "yz"), (MEM, "cd"), (MEM, "ab"))
    ]
    assert found == [["a"], ["a"], ["b"], ["b"], ["a"]]
    assert kubelet.looks == 1


def test_a_ticket_that_is_given_out_again_is_looked_for_again() -> None:
    kubelet = Kubelet()
    kubelet.admit("a", mem="ab")
    kubelet.admit("b", mem="c")
    assert kubelet.who(MEM, "ab") == ["a"]
    del kubelet.shown["a", "main"]
    kubelet.admit("d", mem="b")
    assert kubelet.who(MEM, "ab") == []
    assert kubelet.who(MEM, "b") == ["d"]
    assert kubelet.who(MEM, "c") == ["b"]


def test_a_look_that_began_before_an_allocate_says_nothing_of_its_tickets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kubelet = Kubelet()
    kubelet.admit("a", mem="a")
    shown = kubelet.list()

    def slow() -> Sequence[Holder]:
        del kubelet.shown["a", "main"]
        kubelet.admit("b", mem="a")
        return shown

    with monkeypatch.context() as patch:
        patch.setattr(kubelet, "list", slow)
        assert kubelet.who(MEM, "a") == ["a"]  # true when it was asked
    assert kubelet.who(MEM, "a") == ["b"]


def test_a_look_that_ends_late_does_not_replace_a_newer_one() -> None:
    kubelet = Kubelet()
    kubelet.admit("a", mem="a")
    begun, go_on = threading.Event(), threading.Event()
    look = kubelet.list

    def slow() -> Sequence[Holder]:
        shown = look()
        begun.set()
        assert go_on.wait(60.0)
        return shown

    kubelet.list = slow  # type: ignore[method-assign]
    late = threading.Thread(target=kubelet.who, args=(MEM, "a"))
    late.start()
    assert begun.wait(60.0)
    kubelet.list = look  # type: ignore[method-assign]
    kubelet.admit("b", mem="b")
    assert kubelet.who(MEM, "b") == ["b"]
    go_on.set()
    late.join(60.0)
    looks = kubelet.looks
    assert kubelet.who(MEM, "b") == ["b"]
    assert kubelet.looks == looks


def test_nobody_and_two_are_never_taken_from_memory() -> None:
    kubelet = Kubelet()
    assert kubelet.who(MEM, "a") == []
    kubelet.shown["a", "main"] = {MEM: frozenset("a")}
    assert kubelet.who(MEM, "a") == ["a"]
    kubelet.admit("b", mem="a")
    assert kubelet.who(MEM, "a") == ["a", "b"]
    del kubelet.shown["a", "main"]
    assert kubelet.who(MEM, "a") == ["b"]


def test_whoever_wants_a_look_of_their_own_gets_one() -> None:
    kubelet = Kubelet()
    kubelet.admit("a", mem="a")
    assert kubelet.who(MEM, "a") == ["a"]
    kubelet.error = "the kubelet restarts"
    assert kubelet.who(MEM, "a") == ["a"]
    with pytest.raises(KubeletError, match="restarts"):
        kubelet.who(MEM, "a", anew=True)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sets(st.sampled_from("1234"), min_size=1)), max_size=20))
def test_the_answer_is_always_the_kubelets_own(steps: list[tuple[str, set[str]]]) -> None:
    """Pods come with tickets that are free then, and go with all of theirs."""
    kubelet = Kubelet()
    for pod, tickets in steps:
        if (pod, "main") in kubelet.shown:
            del kubelet.shown[pod, "main"]
            continue
        held = {ticket for one in kubelet.shown.values() for ids in one.values() for ticket in ids}
        if free := "".join(sorted(tickets - held)):
            kubelet.admit(pod, mem=free)
        for (name, _), resources in kubelet.shown.items():
            assert kubelet.who(MEM, "".join(resources[MEM])) == [name]
