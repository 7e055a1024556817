"""The page's entries follow the cluster, as far as the caller may read it."""

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pytest

from device_plugin.cli.access.caller import MAY_I
from device_plugin.cli.ui import follow, rows, watches
from device_plugin.cli.ui.entries import PageEntries
from device_plugin.cli.ui.follow import ClusterFollower
from device_plugin.core.contract.annotations import GROUP, GROUP_SIZE, MAX_REPLICAS, QUEUE
from device_plugin.core.pods import Pod
from device_plugin.core.requests import DEFAULT_PREFIXES
from device_plugin.kube.api import EVERYWHERE, PODS, Kind, Listed, Object, Where
from device_plugin.kube.errors import ForbiddenError
from device_plugin.state.claims import ServedClaims
from device_plugin.state.news import PodNews
from hack.embedded.apiserver.registry import Deletion
from hack.embedded.apiserver.resources import NODES, RequestTarget
from tests.builders import objects
from tests.builders.cards import MEM
from tests.cli.fleet import Fleet
from tests.cli.reading.test_reader import Limited, client
from tests.deadline import eventually

ALL = {"nodes": ("",), "pods": ("",), "jobs": ("",)}
SECONDS = 60


@contextmanager
def followed(
    fleet: Fleet, allowed: Mapping[str, Sequence[str]] = ALL, *, only: bool = False
) -> Iterator[PageEntries]:
    """Entries that follow the fleet. At the end no thread of the page is left, which the next test would meet."""
    entries, before = PageEntries(), set(threading.enumerate())
    with closing(client(fleet, allowed)) as api:
        follower = ClusterFollower(
            api,
            entries,
            DEFAULT_PREFIXES,
            scheduler="vgpu-scheduler",
            namespace="default",
            only_namespace=only,
            served=ServedClaims("vgpu-scheduler"),
        )
        follower.start()
        try:
            yield entries
        finally:
            follower.close()
        assert eventually(lambda: set(_of_page()) <= before, SECONDS), _of_page()


def _of_page() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name.startswith("ui-")]


def shown(entries: PageEntries, kind: str) -> dict[str, Any]:
    found = [json.loads(text) for text in entries.since(0, 0).texts]
    return {key: value for of, key, value in found if of == kind and value is not None}


def held(entries: PageEntries) -> dict[str, list[list[str]]]:
    return {
        name: [[s["pod"] for s in card["slices"]] for card in node["cards"]]
        for name, node in shown(entries, "node").items()
    }


def test_cards_and_holders_as_they_come_and_go(fleet: Fleet) -> None:
    fleet.node("n1", 2)
    fleet.pod("a", 4, "n1-0")
    with followed(fleet) as entries:
        assert eventually(lambda: held(entries) == {"n1": [["a"], []]}, SECONDS)
        card = shown(entries, "node")["n1"]["cards"][0]
        assert (card["mib"], card["freeMiB"], card["groups"], card["freeGroups"]) == (
            16368,
            16368 - 4092,
            60,
            45,
        )
        (taken,) = card["slices"]
        assert (taken["namespace"], taken["container"], taken["mib"]) == ("default", "main", 4092)
        assert (taken["cores"], taken["state"]) == ([[0, 14]], "")
        assert taken["since"]
        fleet.pod("b", 8, "n1-1")
        fleet.node("n2", 1)
        assert eventually(lambda: held(entries) == {"n1": [["a"], ["b"]], "n2": [[]]}, SECONDS)
        fleet.say("a", phase="Succeeded")
        fleet.outlived("n1", "gone")
        assert eventually(lambda: held(entries)["n1"] == [["gone"], ["b"]], SECONDS)
        assert shown(entries, "node")["n1"]["cards"][0]["slices"][0]["state"] == "outliving"
        fleet.delete("/api/v1/nodes/n2")
        assert eventually(lambda: "n2" not in held(entries), SECONDS)
        assert shown(entries, "notice") == {}


def test_a_pod_waits_with_its_reason_until_it_is_placed(fleet: Fleet) -> None:
    fleet.node("n1", 1)
    fleet.pod("big", 17)
    fleet.pod("small", 2)
    with followed(fleet) as entries:
        assert eventually(lambda: len(shown(entries, "waiting")) == 2, SECONDS)
        found = shown(entries, "waiting")
        assert found["default/big"]["reason"] == "too-large" or "17" in found["default/big"]["text"], found
        assert found["default/big"]["asks"] == "hygon.com/dcu-mem: 17"
        assert "fits on node n1" in found["default/small"]["text"]
        fleet.remove("big")
        assert eventually(lambda: shown(entries, "waiting").keys() == {"default/small"}, SECONDS)


def test_jobs_of_queues_as_the_objects_show_them(fleet: Fleet) -> None:
    asking = {"containers": [objects.container(limits={"hygon.com/dcu": "1"})]}
    for name, more in (("train", {"podReplacementPolicy": "Failed"}), ("malformed", {})):
        job = objects.job(name, 4, pod=asking, suspend=True, **more)
        job["metadata"] |= {"labels": {QUEUE: "default"}, "annotations": {MAX_REPLICAS: "8"}}
        fleet.post("/apis/batch/v1/namespaces/default/jobs", job)
    fleet.post("/apis/batch/v1/namespaces/default/jobs", objects.job("in-no-queue"))
    with followed(fleet) as entries:
        assert eventually(lambda: len(shown(entries, "job")) == 2, SECONDS)
        train, malformed = (shown(entries, "job")[f"default/{name}"] for name in ("train", "malformed"))
        assert [train[key] for key in ("name", "queue", "phase", "max")] == ["train", "default", "waiting", 8]
        assert (malformed["phase"], malformed["max"]) == ("refused", None)
        assert "needs podReplacementPolicy: Failed" in malformed["why"]


def test_the_times_of_a_job_are_those_of_its_watch(fleet: Fleet) -> None:
    job = objects.job("train", 4, suspend=True)
    job["metadata"]["labels"] = {QUEUE: "default"}
    fleet.post("/apis/batch/v1/namespaces/default/jobs", job)
    with followed(fleet) as entries:
        assert eventually(lambda: shown(entries, "times"), SECONDS)
        (found,) = shown(entries, "times").values()
        assert (found["name"], found["queue"], [stay[1:] for stay in found["stays"]]) == (
            "train", "default", [[0, "waiting"]],
        )  # fmt: skip
        fleet.delete("/apis/batch/v1/namespaces/default/jobs/train")
        assert eventually(
            lambda: [row["outcome"] for row in shown(entries, "times").values()] == ["gone"], SECONDS
        )


def test_what_a_tenant_can_make_thousands_of_is_bounded(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "MOST_FAULTS", 1)
    monkeypatch.setattr(follow, "MOST_GANGS", 1)
    for name in ("n1", "n2"):
        fleet.node(name)
        fleet.pod(f"on-{name}", 4, f"{name}-0", grant_of="another")
        fleet.pod(f"in-{name}", 4, labels={GROUP: name, GROUP_SIZE: "2"})
    with followed(fleet) as entries:
        # What waits is put first, and the faults last.
        assert eventually(lambda: shown(entries, "fault"), SECONDS)
        counts = [len(shown(entries, kind)) for kind in ("waiting", "gang", "fault")]
        assert counts == [2, 1, 1]
        assert [each["text"] for each in shown(entries, "notice").values()] == [
            "1 of 2 gangs are shown, the namespaces in turn: with -n, vgpu ui shows those of one"
        ]


def test_a_namespace_with_thousands_hides_none_of_the_others() -> None:
    pods = [Pod(namespace, f"p{i}", f"{namespace}-{i}") for namespace in "abc" for i in range(4000)]
    few = rows.in_turn(pods[: 2 * 4000 + 1], 5)
    assert [pod.uid for pod in few] == ["a-0", "b-0", "c-0", "a-1", "b-1"]


def test_what_a_pod_says_of_itself_is_cut() -> None:
    row = rows.waiting_row(Pod("ns", "p", "u"), "a" * 50_000, "b" * 50_000, "", "cores")
    assert (row["asks"], row["text"]) == ("a" * 499 + "\u2026", "b" * 499 + "\u2026")


def test_a_text_is_cut_between_names() -> None:
    """A part of NAMESPACE/NAME would not be recognised as a name, and shown to people who may not see it."""
    for begin in range(460, 500):
        row = rows.waiting_row(Pod("ns", "p", "u"), "", "b" * begin + " team-b/theirs, ns/q", "", "cores")
        shown = row["text"].removesuffix("\u2026").split(" ")[1:]
        assert set(shown) <= {"team-b/theirs,", "ns/q"}


@pytest.mark.parametrize("only", [False, True])
def test_rights_of_one_namespace_show_the_cards_of_its_grants(fleet: Fleet, *, only: bool) -> None:
    fleet.node("n1", 2)
    fleet.pod("a", 4, "n1-0")
    fleet.pod("b", 4)
    with followed(fleet, {"pods": ("default",), "jobs": ("default",)}, only=only) as entries:
        assert eventually(lambda: held(entries) == {"n1": [["a"]]}, SECONDS)
        node = shown(entries, "node")["n1"]
        assert (node["complete"], node["cards"][0]["freeMiB"]) == (False, 0)
        assert eventually(lambda: "default/b" in shown(entries, "waiting"), SECONDS)
        texts = " ".join(each["text"] for each in shown(entries, "notice").values())
        assert "you may not list the nodes of the cluster: cards are known only as grants name them" in texts
        assert ("list the pods of the cluster" in texts) is not only


def test_no_rights_at_all_are_said(fleet: Fleet) -> None:
    with followed(fleet, {}) as entries:
        lacks = {"read-nodes", "read-pods", "read-jobs"}
        assert eventually(lambda: shown(entries, "notice").keys() == lacks, SECONDS)
        assert eventually(
            lambda: "in namespace default" in shown(entries, "notice")["read-pods"]["text"], SECONDS
        )


def test_an_api_server_that_was_away_is_said_until_it_is_back(fleet: Fleet) -> None:
    fleet.node("n1", 1)
    with followed(fleet) as entries:
        assert eventually(lambda: held(entries) == {"n1": [[]]}, SECONDS)
        fleet.stop()
        late = {"late-nodes", "late-pods", "late-jobs"}
        assert eventually(lambda: shown(entries, "notice").keys() == late, SECONDS)
        said = shown(entries, "notice")["late-nodes"]["text"]
        assert re.match(r"nodes may be out of date since \d\d:\d\d:\d\d: ", said), said
        assert re.fullmatch(r"\d\d:\d\d:\d\d", shown(entries, "about")["watch"]["late"]), (
            "the page is not live"
        )
        fleet.start()
        # Nothing has changed meanwhile, so that the watches go on without a list.
        assert eventually(lambda: shown(entries, "notice") == {}, SECONDS)
        assert shown(entries, "about")["watch"] == {"late": ""}
        fleet.pod("a", 4, "n1-0")
        assert eventually(lambda: held(entries) == {"n1": [["a"]]}, SECONDS)


def test_a_forgotten_history_is_read_anew(fleet: Fleet) -> None:
    fleet.node("n1", 1)
    fleet.pod("a", 4, "n1-0")
    with followed(fleet) as entries:
        assert eventually(lambda: held(entries) == {"n1": [["a"]]}, SECONDS)
        fleet.stop()
        fleet.server.registry.delete("system:admin", RequestTarget(NODES, name="n1"), Deletion())
        fleet.server.store.compact()
        fleet.start()
        assert eventually(lambda: held(entries) == {}, SECONDS)
        assert eventually(lambda: shown(entries, "notice") == {}, SECONDS)


def test_rights_that_are_withdrawn_hide_what_they_showed_until_they_are_back(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches, "RIGHTS_SECONDS", 0.05)
    fleet.node("n1", 2)
    fleet.pod("a", 4, "n1-0")
    allowed: dict[str, Sequence[str]] = {**ALL}
    with followed(fleet, allowed) as entries:
        assert eventually(lambda: held(entries) == {"n1": [["a"], []]}, SECONDS)
        allowed["nodes"] = ()
        fleet.stop()
        fleet.start()
        assert eventually(lambda: held(entries) == {"n1": [["a"]]}, SECONDS)
        assert shown(entries, "node")["n1"]["complete"] is False
        assert eventually(lambda: shown(entries, "notice").keys() == {"read-nodes"}, SECONDS)
        allowed["nodes"] = ("",)
        assert eventually(lambda: held(entries) == {"n1": [["a"], []]}, SECONDS)
        assert eventually(lambda: shown(entries, "notice") == {}, SECONDS)


@pytest.mark.parametrize("lost", [("watch",), ("list", "watch")], ids=" and ".join)
def test_pods_are_hidden_while_they_cannot_be_followed_and_shown_again(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, lost: Sequence[str]
) -> None:
    refused, asked, taken = set[str](), threading.Semaphore(0), list[int]()

    def limited(verb: str) -> Callable[..., Any]:
        call = getattr(Limited, verb)

        def answer(client: Limited, kind: Kind[Any], *rest: Any) -> Any:
            if kind.plural == "pods" and verb in refused:
                asked.release()
                raise ForbiddenError("forbidden", 403, "Forbidden")
            return call(client, kind, *rest)

        return answer

    def sync(news: PodNews, pods: Sequence[Pod]) -> None:
        taken.append(len(pods))
        sync_pods(news, pods)

    sync_pods = PodNews.sync
    monkeypatch.setattr(PodNews, "sync", sync)
    monkeypatch.setattr(watches, "RIGHTS_SECONDS", 0.05)
    for verb in ("list", "watch"):
        monkeypatch.setattr(Limited, verb, limited(verb))
    fleet.node("n1", 1)
    fleet.pod("a", 4, "n1-0")
    fleet.pod("b", 4)
    with followed(fleet) as entries:
        assert eventually(lambda: held(entries) == {"n1": [["a"]]} and shown(entries, "waiting"), SECONDS)
        refused.update(lost)
        fleet.stop()
        fleet.start()
        assert eventually(lambda: held(entries) == {"n1": [[]]} and not shown(entries, "waiting"), SECONDS)
        assert eventually(lambda: shown(entries, "notice").keys() == {"read-pods"}, SECONDS)
        for _ in range(3):
            assert asked.acquire(timeout=SECONDS)
        assert taken == [2], "a list that cannot be followed is not taken"
        refused.clear()
        assert eventually(lambda: held(entries) == {"n1": [["a"]]} and shown(entries, "waiting"), SECONDS)
        assert eventually(lambda: shown(entries, "notice") == {}, SECONDS)


@pytest.mark.parametrize(
    "rights", [ALL, {"pods": ("", "default"), "jobs": ("", "default")}], ids=["all", "no-nodes"]
)
def test_rights_of_all_namespaces_that_come_later_are_used_at_the_next_look(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, rights: Mapping[str, Sequence[str]]
) -> None:
    monkeypatch.setattr(watches, "RIGHTS_SECONDS", 0.05)
    for namespace in ("default", "kube-public"):
        fleet.post(
            f"/api/v1/namespaces/{namespace}/pods", objects.pod("a", {MEM: 4}, schedulerName="vgpu-scheduler")
        )
        job = objects.job("train", 1, suspend=True)
        job["metadata"]["labels"] = {QUEUE: "default"}
        fleet.post(f"/apis/batch/v1/namespaces/{namespace}/jobs", job)
    allowed: dict[str, Sequence[str]] = {"pods": ("default",), "jobs": ("default",)}

    def seen(*namespaces: str) -> bool:
        return all(
            shown(entries, kind).keys() == {f"{namespace}/{name}" for namespace in namespaces}
            for kind, name in (("waiting", "a"), ("job", "train"))
        )

    with followed(fleet, allowed) as entries:
        assert eventually(lambda: seen("default"), SECONDS)
        assert eventually(lambda: {"read-pods", "read-jobs"} <= shown(entries, "notice").keys(), SECONDS)
        allowed |= rights
        assert eventually(lambda: seen("default", "kube-public"), SECONDS)
        assert eventually(lambda: not {"read-pods", "read-jobs"} & shown(entries, "notice").keys(), SECONDS)


def test_the_right_to_list_alone_does_not_change_what_is_followed(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, listed = threading.Semaphore(0), list[str]()

    def review(_: Limited, kind: Kind[Any], body: Object, namespace: str = "", *, dry: bool = False) -> bool:
        assert (kind, namespace, dry) == (MAY_I, "", False)
        if body["spec"]["resourceAttributes"]["verb"] == "list":
            return True
        asked.release()
        return False

    def of_pods(limited: Limited, kind: Kind[Any], where: Where = EVERYWHERE) -> Listed[Any]:
        if kind.plural == PODS.plural:
            listed.append(where.namespace)
        return limited_list(limited, kind, where)

    monkeypatch.setattr(watches, "RIGHTS_SECONDS", 0.05)
    limited_list = Limited.list
    fleet.pod("b", 4)
    monkeypatch.setattr(Limited, "create", review)
    monkeypatch.setattr(Limited, "list", of_pods)
    with followed(fleet, {"pods": ("default",)}) as entries:
        assert eventually(lambda: "default/b" in shown(entries, "waiting"), SECONDS)
        for _ in range(3):
            assert asked.acquire(timeout=SECONDS)
        assert listed == ["", "default"], "a look at rights lists nothing"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ForbiddenError("no right to ask", 403, "Forbidden"), ""),
        (
            ValueError("odd"),
            "a part of this page is not updated any more (ValueError: odd): start `vgpu ui` again",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_look_at_rights_that_fails_is_repeated_or_said(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    asked = threading.Semaphore(0)

    def fails(*_: object, **__: object) -> bool:
        asked.release()
        raise error

    monkeypatch.setattr(watches, "RIGHTS_SECONDS", 0.05)
    monkeypatch.setattr(Limited, "create", fails)
    with followed(fleet, {"pods": ("default",)}) as entries:
        for _ in range(1 if said else 3):
            assert asked.acquire(timeout=SECONDS)
        assert eventually(
            lambda: shown(entries, "notice").get("broken") == ({"text": said} if said else None), SECONDS
        )
