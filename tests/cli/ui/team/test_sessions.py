"""Sessions end with time, with their token and with too many others, and logins are bounded."""

import threading

import pytest

from device_plugin.cli.ui.team import sessions as module
from device_plugin.cli.ui.team.reviews import RefusedTokenError
from device_plugin.cli.ui.team.sessions import BusyLoginError, Sessions
from device_plugin.cli.ui.team.visitor import Person
from device_plugin.kube.errors import UnknownError


class Api:
    """An API server that accepts the tokens in `owners`; `now` is the time in seconds."""

    def __init__(self) -> None:
        self.owners = {"t-anna": Person("anna"), "t-bert": Person("bert")}
        self.now = 1000.0
        self.reviews = 0
        self.silent = False

    def review(self, token: str) -> Person:
        self.reviews += 1
        if self.silent:
            raise UnknownError("no answer")
        if token not in self.owners:
            raise RefusedTokenError("no")
        return self.owners[token]

    def sessions(self) -> Sessions:
        return Sessions(self.review, lambda: self.now, session_seconds=3600, idle_seconds=600)


@pytest.fixture
def api() -> Api:
    return Api()


def test_a_login_gives_a_name_that_opens_the_session_of_the_tokens_owner(api: Api) -> None:
    sessions = api.sessions()
    anna, bert = sessions.begin("t-anna", "1"), sessions.begin("t-bert", "1")
    assert len({anna, bert}) == 2
    assert len(anna) >= 43
    found = sessions.find(anna)
    assert found is not None
    assert found.person.name == "anna"
    assert "t-anna" not in repr(found)
    assert anna.encode() not in sessions._sessions
    assert sessions.find(anna[:-1]) is None
    assert sessions.find("ü\udcff") is None


def test_a_session_that_was_ended_opens_nothing_any_more(api: Api) -> None:
    sessions = api.sessions()
    name = sessions.begin("t-anna", "1")
    sessions.end(name)
    assert sessions.find(name) is None
    assert len(sessions) == 0


@pytest.mark.parametrize(("pauses", "lasts"), [([599] * 6, True), ([599] * 7, False), ([600], False)])
def test_a_session_ends_with_time(api: Api, pauses: list[int], *, lasts: bool) -> None:
    sessions = api.sessions()
    name = sessions.begin("t-anna", "1")
    for pause in pauses:
        api.now += pause
        found = sessions.find(name)
    assert (found is not None) is lasts


def test_a_token_that_is_not_accepted_any_more_ends_its_session(api: Api) -> None:
    sessions = api.sessions()
    name = sessions.begin("t-anna", "1")
    del api.owners["t-anna"]
    api.now += module.CHECK_SECONDS - 1
    assert sessions.find(name) is not None
    api.now += 1
    assert sessions.find(name) is None
    api.owners["t-anna"] = Person("anna")
    assert sessions.find(name) is None


def test_a_token_whose_owner_has_other_groups_now_ends_its_session(api: Api) -> None:
    sessions = api.sessions()
    name = sessions.begin("t-anna", "1")
    api.owners["t-anna"] = Person("anna", groups=("other",))
    api.now += module.CHECK_SECONDS
    assert sessions.find(name) is None


def test_while_the_api_server_does_not_answer_a_session_lasts_for_a_while(api: Api) -> None:
    sessions = api.sessions()
    name = sessions.begin("t-anna", "1")
    api.silent = True
    api.now += module.CHECK_SECONDS
    assert sessions.find(name) is not None
    api.now += module.UNCHECKED_SECONDS - module.CHECK_SECONDS
    assert sessions.find(name) is None
    # It is no fault of the session's: it opens the page again once the token is accepted.
    api.silent = False
    api.now += module.AGAIN_SECONDS
    assert sessions.find(name) is not None
    assert api.reviews == 4


@pytest.mark.parametrize("token", ["", "a b", "a\nb", "ü", "x" * (module.MOST_TOKEN + 1)], ids=repr)
def test_what_is_no_token_is_not_sent_to_the_api_server(api: Api, token: str) -> None:
    with pytest.raises(RefusedTokenError):
        api.sessions().begin(token, "1")
    assert api.reviews == 0


def test_4000_logins_of_a_user_leave_few_sessions_and_nobody_elses_ends(api: Api) -> None:
    sessions = api.sessions()
    bert = sessions.begin("t-bert", "1")
    for number in range(4000):
        api.owners[f"t{number}"] = Person(f"system:serviceaccount:team-a:robot-{number}")
        api.now += 0.1
        sessions.begin(f"t{number}", f"10.0.{number % 40}.1")
    assert len(sessions) == module.MOST_OF_USER + 1
    assert sessions.find(bert) is not None


def test_sessions_of_all_users_are_bounded_at_the_cost_of_who_has_most(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_SESSIONS", 50)
    sessions = api.sessions()
    for _ in range(10):
        api.now += 1
        sessions.begin("t-anna", "1")
    for number in range(60):
        api.owners[f"t{number}"] = Person(f"user-{number}")
        api.now += 1
        names = sessions.begin(f"t{number}", "1")
        assert len(sessions) <= 50
    assert sessions.find(names) is not None


def test_guesses_are_bounded_for_an_address_and_for_all(api: Api) -> None:
    sessions = api.sessions()

    def guess(address: str) -> str:
        try:
            sessions.begin("guess", address)
        except (RefusedTokenError, BusyLoginError) as error:
            return type(error).__name__
        return ""

    assert [guess("1") for _ in range(100)].count("RefusedTokenError") == module.BURST_OF_ADDRESS
    assert sessions.begin("t-anna", "2")
    for number in range(100_000):
        guess(f"10.{number}")
    assert api.reviews <= module.LOGIN_BURST
    assert len(sessions._of_address) <= module.MOST_ADDRESSES


def test_logins_at_the_same_time_are_bounded(api: Api) -> None:
    going, began = threading.Event(), threading.Semaphore(0)

    def review(token: str) -> Person:
        began.release()
        going.wait(60)
        return api.owners[token]

    sessions = Sessions(review, lambda: api.now, session_seconds=1, idle_seconds=1)
    threads = [
        threading.Thread(target=sessions.begin, args=("t-anna", "1")) for _ in range(module.LOGINS_AT_ONCE)
    ]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert began.acquire(timeout=60)
    with pytest.raises(BusyLoginError):
        sessions.begin("t-anna", "1")
    going.set()
    for thread in threads:
        thread.join()
    assert sessions.begin("t-anna", "1")
