"""kube-scheduler's calls as they come over the wire, and as they must not."""

import json
import random
import tracemalloc

import pytest
from pytest_mock import MockerFixture

from device_plugin.adapters import extender
from device_plugin.adapters.extender import FilterAnswers, FilterCalls, Recent, read_bind, read_preempt
from device_plugin.core.placement.node_texts import NodeTexts
from device_plugin.core.placement.offer import Offer

_POD = {
    "metadata": {"name": "p", "namespace": "default", "uid": "u1"},
    "spec": {"containers": [{"name": "main", "resources": {"limits": {"hygon.com/dcu-mem": "4"}}}]},
}
_BIND = {"PodName": "p", "PodNamespace": "default", "PodUID": "u1", "Node": "n1"}


def test_a_filter_call_gives_the_pod_and_the_offered_nodes() -> None:
    pod, nodes = FilterCalls()(json.dumps({"Pod": _POD, "Nodes": None, "NodeNames": ["n1", "n2"]}).encode())
    assert (pod.namespace, pod.name, pod.uid) == ("default", "p", "u1")
    assert pod.containers[0].limits == {"hygon.com/dcu-mem": "4"}
    assert list(nodes) == ["n1", "n2"]
    assert (len(nodes), nodes[0], nodes[-1:]) == (2, "n1", ("n2",))


def test_of_a_pods_limits_those_of_our_resources_are_kept() -> None:
    filtered, _ = FilterCalls(frozenset({"a.b/c"}))(json.dumps({"Pod": _POD, "NodeNames": ["n1"]}).encode())
    preempting, _ = read_preempt(
        json.dumps({"Pod": _POD, "NodeNameToMetaVictims": {}}).encode(), frozenset({"a.b/c"})
    )
    assert filtered.containers == preempting.containers == ()


def _call(pod: object, names: str) -> bytes:
    """The call as Go writes it."""
    return b'{"Pod":%b,"Nodes":null,"NodeNames":%b}' % (
        json.dumps(pod, separators=(",", ":")).encode(),
        names.encode(),
    )


def test_a_pod_that_is_asked_for_again_is_read_once_and_its_nodes_each_time(mocker: MockerFixture) -> None:
    reading, read = mocker.spy(extender, "as_pod"), FilterCalls()
    first, _ = read(_call(_POD, '["n1","n2"]'))
    again, nodes = read(_call(_POD, '["n3","n1"]'))
    assert (again, list(nodes)) == (first, ["n3", "n1"])
    assert reading.call_count == 1
    other, _ = read(_call({**_POD, "spec": {"containers": []}}, '["n3","n1"]'))
    assert other.containers == () != first.containers
    assert list(read(_call(_POD, "[]"))[1]) == []
    for wrong in ("null", '"n1"', '["n1"],["n2"]', '["n1"', '["n1"],"NodeNames":["n2"'):
        with pytest.raises(ValueError, match=r"NodeNames|cannot be read"):
            read(_call(_POD, wrong))


def test_a_name_is_found_in_a_list_without_reading_all_names(mocker: MockerFixture) -> None:
    _, nodes = FilterCalls()(_call(_POD, '["n1","n2"]'))
    reading = mocker.spy(extender, "_read")
    assert "n1" in nodes
    assert "n3" not in nodes
    assert reading.call_count == 0
    assert list(nodes) == ["n1", "n2"]
    with pytest.raises(ValueError, match="cannot be read"):
        FilterCalls()(_call(_POD, '["n1""n2"]'))


def test_the_beginning_of_a_call_gives_the_last_list_for_an_equal_call_of_the_same_length() -> None:
    read, other = FilterCalls(), {**_POD, "status": {"phase": "Pending"}}
    first, moved = _call(_POD, '["n1","n2"]'), _call(_POD, '["n2","n1"]')
    beginning = first[: first.index(b'n1"')]
    assert read.begun(beginning, len(first)) is None, "no equal call came before"
    pod, nodes = read(first)
    known = read.begun(beginning, len(moved))
    assert known == (pod, nodes)
    assert known[1] is nodes is read(moved)[1], "lists of the same names are kept once"
    assert read.begun(beginning, len(first) + 1) is None, "a longer list"
    assert read.begun(_call(other, '["n1","n2"]'), len(first)) is None, "another state of the pod"
    assert read.begun(beginning[:-1], len(first)) is None, "the names have not begun"
    read(_call(_POD, '["n1","n2","n3"]'))
    assert read.begun(beginning, len(first)) is None, "the last list is a longer one"


def test_a_list_that_is_not_cached_any_more_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extender, "MOST_LISTS", extender.EMPTY_LIST + 20 * extender.LIST_BYTES)
    read, first, other = FilterCalls(), _call(_POD, '["n1","n2"]'), _call({**_POD, "x": 1}, '["n3","n4"]')
    read(first)
    assert read.begun(first, len(first)) is not None
    read(other)
    assert read.begun(first, len(first)) is None


@pytest.mark.parametrize("names", [1, 2, 50])
def test_cached_lists_take_no_more_memory_than_allowed(names: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extender, "MOST_LISTS", 256 << 10)
    read = FilterCalls()
    tracemalloc.start()
    try:
        for number in range(2000):
            listed = json.dumps([f"node-{number}-{n}" for n in range(names)], separators=(",", ":"))
            assert len(read(_call(_POD, listed))[1]) == names
        assert tracemalloc.get_traced_memory()[0] < 1.1 * extender.MOST_LISTS
    finally:
        tracemalloc.stop()


def test_what_a_pod_writes_is_no_begin_of_the_names() -> None:
    read, text = FilterCalls(), ',"NodeNames":["n9"]}'
    for _ in range(2):
        pod, nodes = read(
            _call({**_POD, "metadata": {"name": text, "namespace": "default", "uid": "u1"}}, '["n1"]')
        )
        assert (pod.name, list(nodes)) == (text, ["n1"])
    deeper = {**_POD, "status": {"other": {"x": 1, "NodeNames": ["n9"]}}}
    for _ in range(2):
        assert list(read(_call(deeper, '["n1"]'))[1]) == ["n1"]


def test_calls_that_are_long_or_many_are_forgotten(
    mocker: MockerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenant can make as many pods as it likes, and long ones."""
    monkeypatch.setattr(extender, "LONGEST", 1000)
    monkeypatch.setattr(extender, "MOST_READ", 2000)
    reading, read = mocker.spy(extender, "as_pod"), FilterCalls()
    long = {**_POD, "status": {"message": "x" * 1000}}
    for pod in (_POD, long, long, _POD):
        read(_call(pod, '["n1"]'))
    assert reading.call_count == 3
    for n in range(100):
        read(_call({**_POD, "status": {"message": f"{n}"}}, '["n1"]'))
        assert read._pods.length <= 2000
    read(_call(_POD, '["n1"]'))
    assert reading.call_count == 104


def test_the_most_recently_used_values_are_kept() -> None:
    recent = Recent[str, int](10)
    for key, value in {"a": 1, "b": 2}.items():
        recent.put(key, value, 4)
    assert recent.get("a") == 1
    recent.put("c", 3, 4)
    assert [recent.get(key) for key in "abc"] == [1, None, 3]
    recent.put("c", 4, 6)
    assert ([recent.get(key) for key in "abc"], recent.length, len(recent)) == ([1, None, 4], 10, 2)


def test_a_name_is_offered_only_as_a_whole() -> None:
    names = ["node-1", "node-10.example.org", "a"]
    for text in (json.dumps(names), json.dumps(names, separators=(",", ":"))):
        _, nodes = FilterCalls()(b'{"Pod":%b,"NodeNames":%b}' % (json.dumps(_POD).encode(), text.encode()))
        assert all(name in nodes for name in names)
        assert not any(name in nodes for name in ("node-", "ode-1", "node-10", "example.org", "", "b"))


def test_the_same_nodes_in_any_order_are_equal() -> None:
    def offered(*names: str) -> object:
        return FilterCalls()(json.dumps({"Pod": _POD, "NodeNames": names}).encode())[1]

    assert offered("n1", "n2") == offered("n2", "n1")
    assert hash(offered("n1", "n2")) == hash(offered("n2", "n1"))
    assert offered("n1", "n2") != offered("n1", "n3")
    assert offered("n1", "n2") != offered("n1")
    assert offered() == offered()
    assert offered("n1") != ("n1",)
    assert offered('n"1', "n2") == offered("n2", 'n"1') != offered('n"2', "n1")


def test_a_scheduler_that_sends_whole_nodes_is_told_what_to_set() -> None:
    with pytest.raises(ValueError, match="nodeCacheCapable: true"):
        FilterCalls()(json.dumps({"Pod": _POD, "Nodes": {"items": []}, "NodeNames": None}).encode())


def test_a_preempt_call_gives_the_pod_and_the_victims_on_each_node() -> None:
    victims = {"n1": {"Pods": [{"UID": "a"}, {"UID": "b"}], "NumPDBViolations": 1}, "n2": {"Pods": None}}
    args = {"Pod": _POD, "NodeNameToVictims": None, "NodeNameToMetaVictims": victims}
    pod, found = read_preempt(json.dumps(args).encode())
    assert (pod.uid, found) == ("u1", {"n1": ["a", "b"], "n2": []})


def test_a_scheduler_that_sends_whole_victims_is_told_what_to_set() -> None:
    with pytest.raises(ValueError, match="nodeCacheCapable: true"):
        read_preempt(json.dumps({"Pod": _POD, "NodeNameToVictims": {}}).encode())


def test_a_bind_call_gives_the_pod_and_its_node() -> None:
    assert read_bind(json.dumps(_BIND).encode()) == ("default", "p", "u1", "n1")


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"null", b"[null]", b"\xff\xfe", b"[" * 100_000, b"{}",
        b'{"Pod":null,"NodeNames":[]}', b'{"Pod":{},"NodeNames":["n1"]}', b'{"Pod":[],"NodeNames":["n1"]}',
        json.dumps({"Pod": _POD, "NodeNames": "n1"}).encode(),
        json.dumps({"Pod": _POD, "NodeNames": [1]}).encode(),
        json.dumps({"Pod": _POD, "NodeNames": {"n1": 1}}).encode(),
        json.dumps({**_BIND, "Node": 7}).encode(), json.dumps({**_BIND, "PodUID": None}).encode(),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_a_value_error(body: bytes) -> None:
    for read in (FilterCalls(), read_bind, read_preempt):
        with pytest.raises(ValueError, match=r"\w{4}"):
            read(body)


def test_a_call_cut_off_or_damaged_anywhere_is_read_or_a_value_error(rng: random.Random) -> None:
    whole = json.dumps({"Pod": _POD, "NodeNames": ["n1"]}).encode()
    for _ in range(500):
        damaged = bytearray(whole[: rng.randint(1, len(whole))])
        damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        try:
            _, nodes = FilterCalls()(bytes(damaged))
        except ValueError:
            continue
        assert all(isinstance(name, str) for name in nodes)


def _written(*answer: object) -> object:
    return json.loads(b"".join(FilterAnswers()(*answer)))  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(5))
def test_an_answer_has_the_text_of_each_node_whatever_the_names_and_texts(seed: int) -> None:
    rng, write = random.Random(seed), FilterAnswers()
    hostile = ["a", '","', '"', "\\", '\\"', '":"', "é\n", "", "a b", "\u2028", '\\","']
    for _ in range(200):
        names = list({"".join(rng.choices(hostile, k=rng.randint(0, 3))) for _ in range(rng.randint(0, 6))})
        rows = {name: row for row, name in enumerate(names[: rng.randint(0, 6)])}
        texts = tuple("".join(rng.choices(hostile, k=3)) + str(number) for number in range(3))
        ranks = bytes(rng.randrange(3) for _ in range(len(rows) + 1))
        refused = NodeTexts(Offer(rows, names), texts, ranks)
        for _ in range(2):
            assert json.loads(b"".join(write([], NodeTexts(), refused, ""))) == {
                "NodeNames": [], "FailedNodes": {}, "FailedAndUnresolvableNodes": dict(refused), "Error": "",
            }, f"seed {seed}"  # fmt: skip
    assert _written(["n1"], NodeTexts(), NodeTexts(), 'why "not"') == {
        "NodeNames": ["n1"], "FailedNodes": {}, "FailedAndUnresolvableNodes": {}, "Error": 'why "not"',
    }  # fmt: skip
    assert _written([], refused, NodeTexts(), "")["FailedNodes"] == dict(refused)  # type: ignore[index]


def test_of_many_hopeless_nodes_one_is_named_with_the_number_of_the_others() -> None:
    names = [f"n{number}" for number in range(extender.MOST_NAMED + 31)]
    rows = {name: row for row, name in enumerate(names)}
    ranks = bytes(int(row >= extender.MOST_NAMED + 1) for row in range(len(names) + 1))
    texts = NodeTexts(Offer(rows, names), ("lack memory", "not wholly free"), ranks)
    written = json.loads(b"".join(FilterAnswers(lambda: True)([], NodeTexts(), texts, "")))
    few = names[extender.MOST_NAMED + 1 :]
    assert written["FailedAndUnresolvableNodes"] == {
        "n0": f"and {extender.MOST_NAMED} others lack memory", **dict.fromkeys(few, "not wholly free"),
    }  # fmt: skip
    # On failed nodes kube-scheduler looks for victims, on each that is named.
    written = json.loads(b"".join(FilterAnswers(lambda: True)([], texts, NodeTexts(), "")))
    assert written["FailedNodes"] == dict(texts)


def test_all_hopeless_nodes_are_named_as_long_as_kube_scheduler_may_need_them() -> None:
    names = [f"n{number}" for number in range(extender.MOST_NAMED + 1)]
    texts = NodeTexts.same(Offer({}, names), "lack memory")
    new = [False]
    write = FilterAnswers(lambda: new[0])
    for short, length in ((False, len(names)), (True, 1), (False, len(names))):
        new[0] = short
        assert (
            len(json.loads(b"".join(write([], NodeTexts(), texts, "")))["FailedAndUnresolvableNodes"])
            == length
        )


def test_the_texts_of_equal_refusals_are_written_once_and_many_are_forgotten(
    mocker: MockerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenant can make as many texts as it likes."""
    monkeypatch.setattr(extender, "MOST_KEPT", 2000)
    encode = mocker.spy(extender, "_written")
    names = [f"node-{n}" for n in range(10)]
    write, offer = FilterAnswers(), Offer({}, names)
    for _ in range(3):
        write([], NodeTexts(), NodeTexts.same(offer, "first"), "")
    assert encode.call_count == 2, "the texts, and that there are none"
    for n in range(100):
        write([], NodeTexts(), NodeTexts.same(offer, f"no model {n}"), "")
        assert write._kept.length <= 2000
    write([], NodeTexts(), NodeTexts.same(offer, "first"), "")
    assert encode.call_count == 103
    write([], NodeTexts(), NodeTexts.same(offer, "x" * 3000), "")
    assert (len(write._kept), write._kept.length) == (0, 0)
