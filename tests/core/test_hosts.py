from device_plugin.core.hosts import Hosts, Room


def test_what_a_pod_holds_is_given_back() -> None:
    hosts = Hosts()
    hosts.set_node("a", Room(8000, 4096))
    hosts.hold("p", "a", Room(3000, 1024))
    assert hosts.room("a") == Room(5000, 3072)
    hosts.release("p")
    hosts.release("p")
    assert hosts.room("a") == hosts.whole("a") == Room(8000, 4096)
    assert hosts.room("ghost") == Room()


def test_a_pod_is_in_one_place() -> None:
    hosts = Hosts()
    hosts.set_node("a", Room(8000))
    hosts.set_node("b", Room(8000))
    hosts.hold("p", "a", Room(3000))
    hosts.hold("p", "a", Room(1000))
    assert hosts.room("a") == Room(7000)
    hosts.hold("p", "b", Room(2000))
    assert (hosts.room("a"), hosts.room("b")) == (Room(8000), Room(6000))


def test_pods_hold_on_while_their_node_is_not_known() -> None:
    hosts = Hosts()
    hosts.hold("p", "a", Room(1000, 5))
    assert hosts.room("a") == Room(-1000, -5)
    hosts.set_node("a", Room(4000, 10))
    assert hosts.room("a") == Room(3000, 5)
    hosts.drop_node("a")
    assert list(hosts.pods()) == ["p"]
    assert hosts.room("a") == Room(-1000, -5)


def test_a_reader_catches_up_from_where_it_was() -> None:
    hosts = Hosts()
    hosts.set_node("a", Room(1))
    hosts.set_node("b", Room(1))
    seen = hosts.version
    hosts.set_node("a", Room(1))
    hosts.hold("idle", "b", Room())
    assert list(hosts.changed_since(seen)) == []
    hosts.hold("p", "a", Room(1))
    hosts.set_node("c", Room(2))
    assert list(hosts.changed_since(seen)) == ["c", "a"]


def test_it_knows_where_a_pod_is() -> None:
    hosts = Hosts()
    hosts.hold("p", "a", Room(1000))
    assert hosts.held("p") == ("a", Room(1000))
    assert hosts.held("ghost") is None
