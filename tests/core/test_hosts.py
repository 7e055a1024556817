from device_plugin.core.hosts import Hosts, Room


def test_what_a_pod_takes_is_given_back() -> None:
    hosts = Hosts()
    hosts.set("a", Room(8000, 4096))
    hosts.take("a", Room(3000, 1024))
    assert hosts.room("a") == Room(5000, 3072)
    hosts.give("a", Room(3000, 1024))
    assert hosts.room("a") == Room(8000, 4096)
    assert hosts.room("ghost") == Room()


def test_a_reader_catches_up_from_where_it_was() -> None:
    hosts = Hosts()
    hosts.set("a", Room(1))
    hosts.set("b", Room(1))
    seen = hosts.version
    hosts.set("a", Room(1))
    assert list(hosts.changed_since(seen)) == []
    hosts.take("a", Room(1))
    hosts.set("c", Room(2))
    assert list(hosts.changed_since(seen)) == ["c", "a"]
