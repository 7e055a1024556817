"""Election as a table: what one candidate writes and believes after each read, by its own clock."""

from dataclasses import replace

import pytest

from device_plugin.kube.api import Object, Ref
from device_plugin.kube.errors import ConflictError, GoneError
from device_plugin.kube.leases import LEASES, Candidate, Election, Lease


def held(holder: str, renewed: str, transitions: int = 0, seconds: int = 15) -> Lease:
    return Lease(holder, renewed, "long ago", seconds, transitions, "7")


def shown(lease: Lease | None) -> tuple[str, str, int] | None:
    return None if lease is None else (lease.holder, lease.acquired, lease.transitions)


def test_a_lease_that_nobody_made_is_made() -> None:
    election = Election("me")
    assert shown(election.next(None, 0.0, "now")) == ("me", "now", 0)
    assert not election.leads(0.0), "it is not written yet"
    election.wrote(0.0)
    assert election.leads(9.9)
    assert not election.leads(10.0), "what was sent in the last moment ends before the Lease does"


def test_ours_is_renewed_with_the_version_that_was_read() -> None:
    wanted = Election("me").next(held("me", "a"), 0.0, "now")
    assert wanted is not None
    assert (shown(wanted), wanted.renewed, wanted.version) == (("me", "long ago", 0), "now", "7")


@pytest.mark.parametrize(("holder", "seconds"), [("", 15), ("another", 15)])
def test_one_that_was_given_up_or_has_expired_is_taken(holder: str, seconds: int) -> None:
    election = Election("me")
    if holder:
        assert election.next(held(holder, "a"), 0.0, "now") is None, "first seen: of unknown age"
        assert election.next(held(holder, "b"), 14.0, "now") is None, "renewed"
        assert election.next(held(holder, "b"), 13.9 + seconds, "now") is None
        assert election.taken_from() == 14.0 + seconds
    taken = election.next(held(holder, "b", transitions=3), 14.1 + seconds, "now")
    assert shown(taken) == ("me", "now", 4)


def test_a_candidate_that_asks_early_has_it_by_its_end() -> None:
    election = Election("me", early=0.5)
    assert election.next(held("another", "a"), 0.0, "now") is None
    assert election.taken_from() == 14.5
    assert election.next(held("another", "a"), 14.4, "now") is None
    assert election.next(held("another", "a"), election.taken_from(), "now") is not None


def test_a_renewal_counts_from_when_a_watch_told_it_and_the_read_decides() -> None:
    election = Election("me")
    assert election.next(held("another", "a"), 0.0, "now") is None
    election.see(held("another", "b"), 1.0)
    assert election.next(held("another", "b"), 2.0, "now") is None
    assert election.taken_from() == 16.0, "not from the read"
    election.see(held("", "old"), 3.0)
    assert election.taken_from() < 3.0
    assert election.next(held("another", "b"), 17.0, "now") is None, "the watch lags: it is counted again"
    assert election.taken_from() == 32.0


@pytest.mark.parametrize("holder", ["", "me"])
def test_only_the_lease_of_another_is_waited_for(holder: str) -> None:
    election = Election("me")
    assert election.taken_from() < 0.0
    election.see(held(holder, "a"), 1.0)
    assert election.taken_from() < 0.0


def test_another_write_to_the_lease_is_no_renewal() -> None:
    election = Election("me")
    assert election.next(held("another", "a"), 0.0, "now") is None
    assert Lease("another", "a", version="8") == Lease("another", "a", version="9")
    assert election.next(Lease("another", "a", seconds=15, version="8"), 15.1, "now") is not None


def test_who_sees_another_holder_leads_no_longer() -> None:
    election = Election("me")
    election.next(None, 0.0, "now")
    election.wrote(0.0)
    assert election.next(held("another", "b"), 1.0, "now") is None
    assert not election.leads(1.0)


def test_only_ours_is_given_up() -> None:
    election = Election("me")
    assert election.released(None, "now") is None
    assert election.released(held("another", "a"), "now") is None
    given = election.released(held("me", "a", 2), "now")
    assert given is not None
    assert (shown(given), given.seconds) == (("", "long ago", 2), 1)
    assert not election.leads(0.0)


class Server:
    """An API server that has one Lease. With `conflict` another candidate is always first."""

    def __init__(self, lease: Lease | None = None) -> None:
        self.lease = lease
        self.conflict = False

    def get(self, *_: object) -> Lease:
        if self.lease is None:
            raise GoneError("gone")
        return self.lease

    def create(self, _: object, body: Object, namespace: str) -> None:
        assert namespace
        self.replace(None, None, body)

    def replace(self, _: object, __: object, body: Object) -> None:
        assert LEASES.parse is not None
        if self.conflict:
            raise ConflictError("it has changed")
        self.lease = LEASES.parse(body)


def candidate(server: Server, note: str = "") -> Candidate:
    of = Ref("lease", "system")
    return Candidate(server, of, Election("me"), lambda: 0.0, lambda: "now", lambda before: before + note)  # type: ignore[arg-type]


def test_the_holder_writes_a_note_that_every_candidate_reads() -> None:
    server = Server()
    me = candidate(server, "x")
    assert me.attempt()
    assert me.attempt()
    assert server.lease is not None
    assert (server.lease.holder, server.lease.note) == ("me", "xx")
    assert me.found is not None
    assert me.found.note == "xx"
    me.release()
    assert (server.lease.holder, server.lease.note) == ("", "xx"), "the next holder goes on with it"


def test_without_takes_free_a_free_lease_is_left_and_its_own_renewed() -> None:
    server = Server()
    me = candidate(server)
    assert not me.attempt(takes_free=False)
    server.lease = Lease("", "long ago", version="7")
    assert not me.attempt(takes_free=False)
    assert not me.leads()
    assert me.attempt()
    assert me.leads()
    assert me.attempt(takes_free=False), "it is ours"


def test_who_comes_second_does_not_lead_and_tries_again() -> None:
    server = Server()
    me = candidate(server)
    server.conflict = True
    assert not me.attempt()
    assert not me.leads()
    server.conflict = False
    assert me.attempt()


def test_a_watch_of_all_leases_tells_a_candidate_of_its_own() -> None:
    me = candidate(Server())
    me.see(replace(held("another", "a"), name="other"))
    assert me.due(99.0) == 99.0
    me.see(replace(held("another", "a"), name="lease"))
    assert me.due(99.0) == 15.0


def test_an_attempt_is_due_when_a_lease_may_be_taken_but_for_one_that_failed_then() -> None:
    now, server = [0.0], Server(held("another", "a"))
    me = Candidate(server, Ref("lease", "system"), Election("me"), lambda: now[0], lambda: "now")  # type: ignore[arg-type]
    assert not me.attempt()
    assert (me.due(2.0), me.due(99.0)) == (2.0, 15.0)
    now[0] = 14.0
    assert not me.attempt()
    now[0] = 15.5
    assert me.due(2.0) == 0.0, "it may be taken since"
    server.conflict = True
    assert not me.attempt()
    assert me.due(2.0) == 2.0
