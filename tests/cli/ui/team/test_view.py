"""Each person sees the own objects, the amounts of others, and no name of theirs."""

import json
from typing import Any

import pytest

from device_plugin.cli.ui.entries import PageEntries
from device_plugin.cli.ui.spaces import PUBLIC, UNKNOWN, Space, spaces_of
from device_plugin.cli.ui.team import view as module
from device_plugin.cli.ui.team.rights import Rights
from device_plugin.cli.ui.team.view import HIDDEN, PersonalView, visible
from device_plugin.cli.ui.team.visitor import Person, Sight

A = frozenset({Space("pods", "team-a"), Space("jobs", "team-a")})
ANNA = Sight(everything=False, spaces=A)
EVERYTHING = Sight(everything=True, spaces=frozenset())


def part(namespace: str, pod: str) -> dict[str, Any]:
    return {
        "namespace": namespace, "pod": pod, "container": f"{pod}-main", "mib": 4096, "cores": [[0, 3]],
        "since": "2026-01-01T00:00:00Z", "job": f"{pod}-job", "state": "", "later": f"{pod}-secret",
    }  # fmt: skip


def node(*slices: dict[str, Any]) -> dict[str, Any]:
    return {
        "serving": True,
        "complete": True,
        "cards": [{"uuid": "GPU-1", "mib": 16384, "slices": [*slices]}],
    }


def seen(kind: str, key: str, value: object, sight: Sight = ANNA) -> Any:
    text = json.dumps([kind, key, value], separators=(",", ":"))
    shown = visible(text, spaces_of(kind, key, value), sight)
    return json.loads(shown)[2] if shown else None


def test_of_others_slices_only_amounts_are_left() -> None:
    theirs = {**part("team-b", "theirs"), "usedMiB": 77, "busy": 7.7, "idle": 77}
    shown = seen("node", "n1", node(part("team-a", "own"), theirs))
    own, other = shown["cards"][0]["slices"]
    assert own == part("team-a", "own")
    assert {key: value for key, value in other.items() if value} == {"mib": 4096, "cores": [[0, 3]]}
    assert "theirs" not in json.dumps(shown)
    assert "team-b" not in json.dumps(shown)


def test_only_the_use_of_own_slices_is_seen() -> None:
    use = {"GPU-1": {"own/main": [1, 2, 3, 0]}}
    assert seen("use", "n1 team-a", use) == use
    for other in ("team-b", "team-a2", "team"):
        assert seen("use", f"n1 {other}", use) is None
        assert seen("use", f"n1 {other}", use, EVERYTHING) == use
    jobs = Sight(everything=False, spaces=frozenset({Space("jobs", "team-a")}))
    assert seen("use", "n1 team-a", use, jobs) is None, "use is about pods"


def test_the_use_of_cards_over_time_is_offered_to_those_who_see_everything() -> None:
    page = {"use": True, "changes": True}
    assert seen("about", "page", page) == {"use": False, "changes": True}
    assert seen("about", "page", page, EVERYTHING) == page


@pytest.mark.parametrize("kind", ["waiting", "gang", "job", "times", "owner"])
def test_entries_of_other_namespaces_are_left_out_also_when_they_go(kind: str) -> None:
    for namespace, shown in (("team-a", True), ("team-b", False), ("team-a2", False)):
        value = {"namespace": namespace, "pod": "x"}
        assert bool(seen(kind, f"{namespace}/x", value)) is shown
    entries = PageEntries()
    entries.put(kind, {"team-b/x": {"namespace": "team-b"}, "team-a/x": {"namespace": "team-a"}})
    before = entries.since(0, 0).version
    entries.put(kind, {"team-b/x": None, "team-a/x": None})
    gone = entries.since(before, 0)
    left = [visible(text, spaces, ANNA) for text, spaces in zip(gone.texts, gone.spaces, strict=True)]
    assert sorted(left) == ["", f'["{kind}","team-a/x",null]']


def test_the_right_for_pods_is_none_for_jobs() -> None:
    pods = Sight(everything=False, spaces=frozenset({Space("pods", "team-a")}))
    assert seen("job", "team-a/x", {"namespace": "team-a"}, pods) is None
    assert seen("waiting", "team-a/x", {"namespace": "team-a"}, pods)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "1 card of n1 is preempting team-b/theirs, team-a/own",
            f"1 card of n1 is preempting {HIDDEN}, team-a/own",
        ),
        ("slices are kept for team-b/train.", f"slices are kept for {HIDDEN}."),
        ("(team-b/x)", f"({HIDDEN})"),
        ("'team-b/x.y-z'", f"'{HIDDEN}'"),
        ("holds 3/4 of hygon.com/dcu-mem: 4, vgpu.io/group and /dev/kfd", None),
        ("0/pod", HIDDEN),
    ],
)
def test_names_of_others_in_texts_are_replaced(text: str, shown: str | None) -> None:
    found = seen("waiting", "team-a/own", {"namespace": "team-a", "text": text, "deep": [{"more": text}]})
    assert found["text"] == found["deep"][0]["more"] == (shown or text)


def test_faults_are_seen_by_whoever_may_see_their_object() -> None:
    for key, wanted in (
        ("grant team-b/x", None),
        ("grant team-a/x", "grant of team-a/x"),
        ("resize team-b/x", None),
        ("inventory node-1", f"inventory of {HIDDEN}"),
    ):
        text = "inventory of team-b/x" if key.startswith("inventory") else f"grant of {key.split()[1]}"
        found = seen("fault", key, {"text": text})
        assert (found and found["text"]) == wanted


def test_an_unknown_kind_is_for_nobody_but_who_sees_everything() -> None:
    assert spaces_of("new kind", "x", {"pod": "secret"}) == UNKNOWN
    assert seen("new kind", "x", {"namespace": "team-a"}) is None
    assert seen("new kind", "x", {"a": 1}, Sight(everything=True, spaces=frozenset())) == {"a": 1}
    assert spaces_of("about", "page", {}) == PUBLIC


def test_a_text_is_made_when_it_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams that nobody reads would otherwise hold a copy of all entries each."""
    made: list[str] = []

    def shown(text: str, *_: object) -> str:
        made.append(text)
        return text

    monkeypatch.setattr(module, "visible", shown)
    entries = PageEntries()
    entries.put("node", {f"n{i}": node() for i in range(100)})
    view = PersonalView(entries, Rights(lambda *_: False, lambda: 0.0), Person("anna"), lambda: 0.0)
    texts = iter(view.since(0, 0).texts)
    assert next(texts)
    assert len(made) == 1


def test_a_stream_begins_anew_when_rights_change_and_only_then() -> None:
    allowed, now = {Space("pods", "team-a")}, [1000.0]
    rights = Rights(lambda _, space: space in allowed, lambda: now[0])
    entries = PageEntries()
    entries.put("about", {"cluster": {"read": True}})
    entries.put("waiting", {f"{of}/x": {"namespace": of} for of in ("team-a", "team-b")})
    view = PersonalView(entries, rights, Person("anna"), lambda: now[0])

    def keys(version: int) -> tuple[int, bool, list[str]]:
        changes = view.since(version, 0)
        return changes.version, changes.anew, sorted(json.loads(text)[1] for text in changes.texts)

    version, anew, found = keys(0)
    assert (anew, found) == (True, ["cluster", "team-a/x"])
    assert keys(version)[1:] == (False, [])
    # Objects of a namespace that was not known before.
    entries.put("waiting", {"team-c/x": {"namespace": "team-c"}, "team-a/y": {"namespace": "team-a"}})
    version, anew, found = keys(version)
    assert (anew, found) == (False, ["team-a/y"])
    allowed.add(Space("pods", "team-b"))
    now[0] += 400
    version, anew, found = keys(version)
    assert (anew, found) == (True, ["cluster", "team-a/x", "team-a/y", "team-b/x"])
    allowed.clear()
    now[0] += 100
    version, anew, found = keys(version)
    assert (anew, found) == (True, ["cluster"])
    assert module.LOOK_SECONDS < 10
