"""Nodes and cards as people see them."""

import json
import re

import pytest
import yaml

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli.cards import granted_alone
from device_plugin.kube.errors import from_status
from device_plugin.wiring.commands import main
from tests.builders import objects
from tests.cli.figures import BUSY, MIB, Figures
from tests.cli.fleet import Fleet


def vgpu(fleet: Fleet, *words: str) -> int:
    return main([*words, "--kubeconfig", str(fleet.kubeconfig)])


def filled(fleet: Fleet) -> None:
    fleet.node("n1", 2)
    fleet.node("n2")
    fleet.pod("a", 4, "n1-0")
    fleet.pod("b", 8, "n1-1")
    fleet.say("a", phase="Running")


def test_cards_with_bars_and_who_holds_what(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    filled(fleet)
    assert vgpu(fleet, "cordon", "n2-0") == 0
    capsys.readouterr()
    assert vgpu(fleet, "cards") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["NODE", "CARD", "MEMORY", "CORE", "GROUPS", "SLICES", "UNUSED", "STATE"]
    assert re.fullmatch(r"    default/a main: 4 GiB, core groups 0-14, \d+s", lines[2])
    assert re.fullmatch(r"    default/b main: 8 GiB, core groups 0-29, \d+s, does not run", lines[4])
    assert lines[1].split() == ["n1", "n1-0", "██░░░░░░░░", "4/16", "GiB", "██░░░░░░░░", "15/60", "1/4", "?"]
    free = ["n2", "n2-0", "░" * 10, "0/16", "GiB", "░" * 10, "0/60", "0/4", "0", "GiB", "cordoned"]
    assert lines[5].split() == free
    assert max(map(len, lines)) <= 80


def test_a_slice_that_was_asked_in_percent_says_so_and_how_much_is_free(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.node("n1")
    fleet.pod("quarter", 4, "n1-0", percent=25)
    assert vgpu(fleet, "cards", "-o", "wide") == 0
    header, row, line = capsys.readouterr().out.splitlines()
    assert row[header.index("FREE PERCENT") :].split()[0] == "75"
    assert line.startswith("    default/quarter main: 25 %, 4 GiB, core groups 0-14, ")
    assert vgpu(fleet, "cards", "-o", "json") == 0
    (card,) = json.loads(capsys.readouterr().out)["cards"]
    assert (card["freePercent"], [each["percent"] for each in card["holders"]]) == (75, [25])


def test_nodes_are_sums_of_their_cards(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    filled(fleet)
    assert vgpu(fleet, "nodes", "--sort-by=-memory") == 0
    _, n1, n2 = capsys.readouterr().out.splitlines()
    assert n1.split() == ["n1", "Z100", "2", "████░░░░░░", "12/32", "GiB", "████░░░░░░", "45/120", "2/8", "?"]
    assert n2.split()[:3] == ["n2", "Z100", "1"]


def test_a_bar_shows_the_used_part_of_what_is_granted_and_a_sum_what_is_idle_or_unused(
    fleet: Fleet, prometheus: Figures, capsys: pytest.CaptureFixture[str]
) -> None:
    filled(fleet)
    idle = {**BUSY, "memory_used_bytes": 8000 * MIB, "compute_ratio": 0.0, "idle_seconds": 7200.0}
    prometheus.pods["b"] = "n1-1", idle
    assert vgpu(fleet, "cards", "--prometheus", prometheus.url) == 0
    _, first, a, second, b, third = capsys.readouterr().out.splitlines()
    assert first.split() == [
        "n1",
        "n1-0",
        "█▒░░░░░░░░",
        "4/16",
        "GiB",
        "█▒░░░░░░░░",
        "15/60",
        "1/4",
        "3.5",
        "GiB",
    ]
    assert re.fullmatch(r"    default/a main: 4 GiB, core groups 0-14, \d+s, uses 0.5 GiB and 50%", a)
    assert second.split()[-2:] == ["8", "GiB"], "an idle slice is unused as a whole"
    assert b.endswith(", uses 7.8 GiB and 0%, idle for 2h, does not run")
    assert third.split()[-2:] == ["0", "GiB"]
    assert vgpu(fleet, "nodes", "--prometheus", prometheus.url) == 0
    _, n1, n2 = capsys.readouterr().out.splitlines()
    assert n1.split()[3:] == ["███▒░░░░░░", "12/32", "GiB", "█▒▒▒░░░░░░", "45/120", "2/8", "11.5", "GiB"]
    assert n2.split()[-2:] == ["0", "GiB"]
    assert vgpu(fleet, "cards", "-o", "json", "--prometheus", prometheus.url) == 0
    _, card, _ = json.loads(capsys.readouterr().out)["cards"]
    assert (card["usedBytes"], card["busyCoreGroups"], card["idleSlices"]) == (8000 * MIB, 0, 1)
    assert card["holders"][0]["idleSeconds"] == 7200


def test_use_that_is_not_known_is_a_question_mark_and_said_once(
    fleet: Fleet, prometheus: Figures, capsys: pytest.CaptureFixture[str]
) -> None:
    filled(fleet)
    assert vgpu(fleet, "cards", "n1") == 0
    said = capsys.readouterr()
    assert [line.split()[-1] for line in said.out.splitlines()[1::2]] == ["?", "?"]
    assert said.err == "use is not known: no node agent runs in namespace vgpu-system\n"
    assert vgpu(fleet, "nodes", "--prometheus", prometheus.url) == 0
    _, n1, n2 = capsys.readouterr().out.splitlines()
    assert (n1.split()[-1], n2.split()[-2:]) == ("?", ["0", "GiB"]), (
        "the use of one of two slices is not known"
    )


def test_a_list_of_names_asks_nobody_for_use(
    fleet: Fleet, prometheus: Figures, capsys: pytest.CaptureFixture[str]
) -> None:
    filled(fleet)
    for command in ("cards", "nodes", "pods"):
        assert vgpu(fleet, command, "-o", "name", "--prometheus", prometheus.url) == 0
    assert capsys.readouterr().err == ""
    assert prometheus.queries == []
    assert vgpu(fleet, "cards", "-o", "name", "--sort-by=-unused", "--prometheus", prometheus.url) == 0
    assert prometheus.queries


def test_use_is_no_change_of_a_card(
    fleet: Fleet, prometheus: Figures, capsys: pytest.CaptureFixture[str]
) -> None:
    filled(fleet)
    found = []
    for busy in (0.5, 0.7):
        prometheus.pods["a"] = "n1-0", {**BUSY, "compute_ratio": busy}
        assert vgpu(fleet, "cards", "-o", "json", "--prometheus", prometheus.url) == 0
        found.append(json.loads(capsys.readouterr().out)["cards"][0])
    one, other = found
    assert one != other
    assert granted_alone(one) == granted_alone(other)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("cards", "n2"), ["card/n2/n2-0"]),
        (("cards", "-n", "default"), ["card/n1/n1-0", "card/n1/n1-1"]),
        (("cards", "--sort-by=-core-groups"), ["card/n1/n1-1", "card/n1/n1-0", "card/n2/n2-0"]),
        (("nodes",), ["node/n1", "node/n2"]),
        (("nodes", "--sort-by=memory"), ["node/n2", "node/n1"]),
        (("nodes", "-l", "none=such"), []),
    ],
)
def test_rows_are_chosen_and_sorted(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], expected: list[str]
) -> None:
    filled(fleet)
    assert vgpu(fleet, *words, "-o", "name") == 0
    assert capsys.readouterr().out.splitlines() == expected


@pytest.mark.parametrize(("form", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
@pytest.mark.parametrize("command", ["cards", "nodes"])
def test_programs_get_numbers(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], command: str, form: str, read: object
) -> None:
    filled(fleet)
    assert callable(read)
    assert vgpu(fleet, command, "-o", form) == 0
    found = read(capsys.readouterr().out)
    assert (found["missing"], found["faults"]) == ([], [])
    first = found[command][0]
    assert (first["heldMiB"], first["heldCoreGroups"]) == ((12276, 45) if command == "nodes" else (4092, 15))


def test_a_column_that_is_not_there_is_refused_with_those_that_are(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    assert vgpu(fleet, "nodes", "--sort-by=colour") == 2
    assert (
        "write one of node, model, cards, memory, core-groups, slices, unused, state"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("command", ["cards", "nodes"])
def test_without_cards_it_says_so(fleet: Fleet, capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert vgpu(fleet, command) == 0
    assert capsys.readouterr() == ("", "no node has cards\n")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("cards", "-n", "team-a"), "no pod of namespace team-a holds a slice"),
        (("cards", "n2", "-n", "default"), "no pod of namespace default holds a slice on node n2"),
        (("cards", "-l", "rack=3"), "no node with the labels rack=3 has cards"),
        (("cards", "-l", "rack", "-n", "default"),
            "no pod of namespace default holds a slice on a node with the labels rack"),
        (("cards", "bare"), "node bare has no cards"),
        (("nodes", "-n", "team-a"), "no pod of namespace team-a holds a slice"),
        (("nodes", "-l", "rack"), "no node with the labels rack has cards"),
    ],
)  # fmt: skip
def test_an_empty_list_says_of_what_it_is_empty(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], text: str
) -> None:
    filled(fleet)
    fleet.post("/api/v1/nodes", objects.node("bare"))
    assert vgpu(fleet, *words) == 0
    assert capsys.readouterr() == ("", f"{text}\n")


def test_a_node_that_is_not_there_is_an_error(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    filled(fleet)
    assert vgpu(fleet, "cards", "TYPO") == 2
    assert capsys.readouterr().err == "vgpu: there is no node TYPO: see `kubectl get nodes`\n"


def test_who_may_not_read_nodes_sees_the_cards_that_grants_name(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise from_status(403, "Forbidden", "no")

    filled(fleet)
    monkeypatch.setattr(KubeClient, "get", refused)
    assert vgpu(fleet, "cards", "n1", "-o", "name") == 0
    assert capsys.readouterr().out.splitlines() == ["card/n1/n1-0", "card/n1/n1-1"]


def test_pods_that_hold_cards_and_do_not_run_say_why(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    filled(fleet)
    fleet.pod("waits", 4)
    waiting = [{"name": "main", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]
    fleet.patch("/api/v1/namespaces/default/pods/b/status", {"status": {"containerStatuses": waiting}})
    assert vgpu(fleet, "pods") == 0
    header, first, second = capsys.readouterr().out.splitlines()
    assert header.split() == ["NAME", "NODE", "CARD", "MEMORY", "GROUPS", "SINCE", "STATUS"]
    assert re.fullmatch(r"a +n1 +n1-0 +\?/4 GiB +\? of 15 +\d+s +Running", first)
    assert re.fullmatch(r"b +n1 +n1-1 +\?/8 GiB +\? of 30 +\d+s +CrashLoopBackOff", second)
    assert vgpu(fleet, "pods", "-n", "team-a") == 0
    assert capsys.readouterr().err == "no pod of namespace team-a holds a slice\n"
    assert vgpu(fleet, "pods", "-A", "-o", "json", "--sort-by=-memory") == 0
    found = json.loads(capsys.readouterr().out)["pods"]
    assert [(pod["name"], pod["runs"], pod["memMiB"]) for pod in found] == [
        ("b", False, 8184),
        ("a", True, 4092),
    ]


def test_quotas_on_cards_with_what_is_used(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    hard = {"requests.hygon.com/dcu-mem": "16", "requests.hygon.com/dcu-cores": "1k", "pods": "10"}
    body = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "cards"},
        "spec": {"hard": hard},
    }
    fleet.post("/api/v1/namespaces/default/resourcequotas", body)
    used = {"status": {"hard": hard, "used": {"requests.hygon.com/dcu-mem": "12"}}}
    fleet.patch("/api/v1/namespaces/default/resourcequotas/cards/status", used)
    assert vgpu(fleet, "quota") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [
        ["QUOTA", "RESOURCE", "USED"],
        ["cards", "hygon.com/dcu-cores", "░" * 10, "0/1k"],
        ["cards", "hygon.com/dcu-mem", "████████░░", "12/16"],
    ]
    assert vgpu(fleet, "quota", "-n", "team-a") == 0
    assert "no ResourceQuota of namespace team-a limits cards" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["cards", "nodes", "ui"])
def test_help_says_that_all_namespaces_are_shown(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert "default: all namespaces" in " ".join(capsys.readouterr().out.split())
