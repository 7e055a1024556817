"""Cards out of service and back, by a person with a kubeconfig."""

import re
import threading
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli import drain
from device_plugin.core.contract.cards import REPORT_SECONDS
from device_plugin.kube.errors import ConflictError
from device_plugin.wiring.commands import main
from tests.cli.fleet import Fleet
from tests.deadline import eventually


def times(
    monkeypatch: pytest.MonkeyPatch,
    sleep: Callable[[float], None],
    monotonic: Callable[[], float] = time.monotonic,
) -> None:
    """`vgpu drain` alone has this time: the threads of the API server in this process go on with the real one."""
    monkeypatch.setattr(drain, "time", SimpleNamespace(sleep=sleep, monotonic=monotonic))


def vgpu(fleet: Fleet, *words: str) -> int:
    return main([*words, "--kubeconfig", str(fleet.kubeconfig)])


def test_without_a_kubeconfig_it_says_how_to_name_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert main(["cordon", "n1-0"]) == 2
    expected = f"kubeconfig {tmp_path}/.kube/config does not exist: name another one with --kubeconfig"
    assert capsys.readouterr().err == f"vgpu: {expected}\n"


def test_cards_of_one_node_are_cordoned_and_uncordoned_one_by_one(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.node("n1", 2)
    fleet.node("n2")
    assert vgpu(fleet, "cordon", "n1-1") == vgpu(fleet, "cordon", "n1-0") == 0
    assert (fleet.cordoned("n1"), fleet.cordoned("n2")) == ("n1-0,n1-1", "")
    assert vgpu(fleet, "cordon", "n1-0") == 0
    assert vgpu(fleet, "uncordon", "n1-1") == 0
    assert fleet.cordoned("n1") == "n1-0"
    assert vgpu(fleet, "uncordon", "n1-0") == 0
    assert fleet.cordoned("n1") == ""
    assert capsys.readouterr().out.splitlines()[-1] == "n1-0 on n1 is in service"


@pytest.mark.parametrize(
    ("command", "left"), [("cordon", "n1-0,n1-1"), ("uncordon", "n1-1")], ids=["cordon", "uncordon"]
)
def test_a_cordon_that_another_makes_meanwhile_stays(
    fleet: Fleet,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    left: str,
) -> None:
    fleet.node("n1", 2)
    if command == "uncordon":
        assert vgpu(fleet, "cordon", "n1-0") == 0
    patch, others = KubeClient.patch, [["cordon", "n1-1", "--reason", "a fan"]]

    def meanwhile(client: KubeClient, *words: Any) -> Any:
        if others:
            assert vgpu(fleet, *others.pop()) == 0
        return patch(client, *words)

    monkeypatch.setattr(KubeClient, "patch", meanwhile)
    assert vgpu(fleet, command, "n1-0") == 0
    assert not others
    assert fleet.cordoned("n1") == left
    assert "a fan" in str(fleet.get("/api/v1/nodes/n1"))
    assert "n1-1 on n1 is cordoned" in capsys.readouterr().out


def test_a_node_that_is_written_all_the_time_is_an_error(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.node("n1")

    def changed(*_: Any) -> Any:
        raise ConflictError("the object has been modified")

    monkeypatch.setattr(KubeClient, "patch", changed)
    assert vgpu(fleet, "cordon", "n1-0") == 2
    assert "other programs keep writing node n1: try again" in capsys.readouterr().err


def test_a_card_that_no_node_has_is_refused(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    fleet.node("n1")
    assert vgpu(fleet, "cordon", "ghost") == 2
    assert "no node has a card ghost" in capsys.readouterr().err


PCI, SAME = "0000:19:00.0", "GPU-1122334455000001"


@pytest.mark.parametrize(
    ("uuid", "named", "meant"),
    [("GPU-{}-0000:19:00.0", PCI, "GPU-n1-0000:19:00.0"), (SAME, SAME, SAME)],
)
@pytest.mark.parametrize("command", ["cordon", "uncordon", "drain"])
def test_what_cards_of_two_nodes_are_called_is_refused_with_both(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], command: str, uuid: str, named: str, meant: str
) -> None:
    for name in ("n1", "n2"):
        fleet.node(name, uuid=uuid.format(name))
        fleet.pod(f"on-{name}", 8, uuid.format(name), node=name)
    assert vgpu(fleet, command, named) == 2
    other = meant.replace("n1", "n2")
    assert f"2 cards have the name {named}: write one of n1/{meant}, n2/{other}" in capsys.readouterr().err
    assert fleet.cordoned("n1") == fleet.cordoned("n2") == ""
    assert set(fleet.pods()) == {"on-n1", "on-n2"}


@pytest.mark.parametrize("named", [f"n2/{PCI}", f"GPU-n2-{PCI}"])
def test_drain_touches_one_node_where_cards_have_no_unique_id(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], named: str
) -> None:
    for name in ("n1", "n2"):
        fleet.node(name, uuid=f"GPU-{name}-{PCI}")
        fleet.pod(f"on-{name}", 8, f"GPU-{name}-{PCI}", node=name)
    assert vgpu(fleet, "drain", named) == 0
    assert set(fleet.pods()) == {"on-n1"}
    assert (fleet.cordoned("n1"), fleet.cordoned("n2")) == ("", f"GPU-n2-{PCI}")
    assert capsys.readouterr().out.splitlines()[-1] == "GPU-n2-0000:19:00.0 is empty"
    assert vgpu(fleet, "uncordon", named) == 0
    assert fleet.cordoned("n2") == ""


def test_a_card_that_its_node_shows_no_more_is_found_by_the_list(fleet: Fleet) -> None:
    for name in ("n1", "n2"):
        fleet.node(name, uuid=SAME if name == "n1" else "other")
    assert vgpu(fleet, "cordon", SAME) == 0
    fleet.publish("n1", "another")
    fleet.publish("n2", SAME)
    assert vgpu(fleet, "cordon", SAME) == 0
    assert (fleet.cordoned("n1"), fleet.cordoned("n2")) == (SAME, SAME), "it was moved"
    assert vgpu(fleet, "uncordon", f"n1/{SAME}") == vgpu(fleet, "uncordon", SAME) == 0
    assert fleet.cordoned("n1") == fleet.cordoned("n2") == ""


@pytest.mark.parametrize(
    ("named", "says"),
    [("ghost/n1-0", "there is no node ghost"), ("n1/ghost", "node n1 has no card ghost: see `vgpu cards`")],
)
def test_a_node_or_a_card_of_it_that_there_is_not_is_refused(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], named: str, says: str
) -> None:
    fleet.node("n1")
    assert vgpu(fleet, "drain", named) == 2
    assert says in capsys.readouterr().err


def test_drain_evicts_the_pods_of_the_card_and_no_others(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.node("n1", 2)
    fleet.pod("on-it", 8, "n1-0")
    fleet.pod("beside", 8, "n1-1")
    fleet.pod("nowhere", 8)
    assert vgpu(fleet, "drain", "n1-0") == 0
    assert set(fleet.pods()) == {"beside", "nowhere"}
    assert fleet.cordoned("n1") == "n1-0"
    assert capsys.readouterr().out.splitlines() == [
        "n1-0 on n1 is cordoned", "waiting for default/on-it to end", "n1-0 is empty",
    ]  # fmt: skip
    (event,) = fleet.get("/api/v1/namespaces/default/events")["items"]
    told = "evicted by `vgpu drain` of system:admin: card n1-0 of node n1 is emptied"
    assert (event["reason"], event["message"], event["type"]) == ("CardDrained", told, "Normal")
    assert event["involvedObject"]["name"] == "on-it"


def test_drain_leaves_a_pod_alone_that_nobody_would_make_again(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.node("n1")
    fleet.pod("alone", 8, "n1-0", owner="")
    assert vgpu(fleet, "drain", "n1-0") == 2
    assert (
        "default/alone has no owner that creates a replacement: add --force to evict it, or delete it yourself"
        in capsys.readouterr().err
    )
    assert set(fleet.pods()) == {"alone"}
    assert fleet.cordoned("n1") == "", "it refuses before it changes anything"
    assert vgpu(fleet, "drain", "n1-0", "--force") == 0
    assert not fleet.pods()


def test_drain_waits_until_the_containers_have_ended(fleet: Fleet) -> None:
    fleet.node("n1")
    fleet.pod("slow", 8, "n1-0", grace=30)
    status: list[int] = []
    drain = threading.Thread(target=lambda: status.append(vgpu(fleet, "drain", "n1-0")))
    drain.start()
    assert eventually(lambda: "deletionTimestamp" in fleet.pods()["slow"]["metadata"], 60)
    assert not status
    fleet.remove("slow")
    drain.join(60)
    assert status == [0]


def test_drain_says_who_is_left_when_time_is_up(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    fleet.node("n1")
    fleet.pod("slow", 8, "n1-0", grace=30)
    assert vgpu(fleet, "drain", "n1-0", "--timeout", "0") == 2
    assert "still there: default/slow; the card stays cordoned" in capsys.readouterr().err


def test_drain_waits_for_processes_that_outlive_their_pod(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.node("n1")
    fleet.outlived("n1", "old", "older")
    assert vgpu(fleet, "drain", "n1-1", "--timeout", "0") == 0, "they hold another card"
    assert vgpu(fleet, "drain", "n1-0", "--timeout", "0") == 2
    assert (
        "waited in vain for processes on node n1 that outlive their pods: default/old, default/older; the card stays"
        " cordoned, drain it again" in capsys.readouterr().err
    )
    looks = iter((["old"], ["old"], []))
    times(monkeypatch, lambda _: fleet.outlived("n1", *next(looks)))
    assert vgpu(fleet, "drain", "n1-0") == 0
    assert capsys.readouterr().out.splitlines() == [
        "n1-0 on n1 is already cordoned",
        "waiting for processes on node n1 that outlive their pods: default/old, default/older",
        "waiting for processes on node n1 that outlive their pods: default/old",
        "n1-0 is empty",
    ]


def test_drain_waits_for_an_agent_that_does_not_serve(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.node("n1")
    fleet.outlived("n1", serving=False)
    absent = "the agent of node n1, which does not serve: it would report processes that outlive their pods"
    assert vgpu(fleet, "drain", "n1-0", "--timeout", "0") == 2
    assert f"waited in vain for {absent}; the card stays cordoned" in capsys.readouterr().err
    times(monkeypatch, lambda _: fleet.outlived("n1"))
    assert vgpu(fleet, "drain", "n1-0") == 0
    assert capsys.readouterr().out.splitlines()[1:] == [f"waiting for {absent}", "n1-0 is empty"]


def test_drain_waits_for_the_report_of_a_pod_that_is_deleted_by_force_meanwhile(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.node("n1")
    fleet.pod("old", 8, "n1-0")
    monkeypatch.setattr(drain, "SETTLE_SECONDS", REPORT_SECONDS)
    # At once there is no report, then there is one, then its processes have ended.
    looks, now = iter((["old"], [])), count()
    times(monkeypatch, lambda _: fleet.outlived("n1", *next(looks, [])), lambda: float(next(now)))
    assert vgpu(fleet, "drain", "n1-0") == 0
    assert "waiting for processes on node n1 that outlive their pods: default/old" in capsys.readouterr().out


def test_drain_ends_when_time_is_up_though_pods_keep_coming(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing here keeps pods off a cordoned card: no cluster service runs."""
    fleet.node("n1")
    fleet.pod("pod-0", 8, "n1-0")
    slept: list[float] = []

    def comes_again(seconds: float) -> None:
        assert not fleet.pods(), "the one before was evicted"
        slept.append(seconds)
        fleet.pod(f"pod-{len(slept)}", 8, "n1-0")

    times(monkeypatch, comes_again, lambda: sum(slept))
    assert vgpu(fleet, "drain", "n1-0", "--timeout", "2") == 2
    assert sum(slept) == 2
    told = capsys.readouterr().err
    assert "the card stays cordoned" in told
    assert "drain it again" in told


@pytest.mark.parametrize("seconds", ["-1", "nan"])
def test_a_time_that_is_none_is_refused_before_anything_is_cordoned(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], seconds: str
) -> None:
    fleet.node("n1")
    assert vgpu(fleet, "drain", "n1-0", f"--timeout={seconds}") == 2
    assert "write --timeout of 0 or more seconds" in capsys.readouterr().err
    assert fleet.cordoned("n1") == ""


@pytest.mark.parametrize("command", ["cordon", "uncordon", "drain", "defrag"])
def test_help_begins_with_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert f"\n    vgpu {command} " in capsys.readouterr().out


def test_a_card_that_is_cordoned_already_says_so_and_keeps_why_it_is(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.node("n1", 2)
    assert vgpu(fleet, "cordon", "n1-0", "--reason", "a fan") == 0
    assert vgpu(fleet, "cordon", "n1-0") == vgpu(fleet, "uncordon", "n1-1") == 0
    assert capsys.readouterr().out.splitlines() == [
        "n1-0 on n1 is cordoned",
        "n1-0 on n1 is already cordoned",
        "n1-1 on n1 is already in service",
    ]
    assert vgpu(fleet, "cards") == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "a fan" in line]
    assert re.fullmatch(r"    cordoned \d+s ago: a fan, by system:admin", line)
    assert vgpu(fleet, "cordon", "n1-0", "--reason", "the other fan") == 0
    assert vgpu(fleet, "uncordon", "n1-0") == 0
    assert "the other fan" not in str(fleet.get("/api/v1/nodes/n1"))


@pytest.mark.parametrize("reason", ["a" * 201, "a\nb"])
def test_a_reason_that_cannot_be_kept_is_refused(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], reason: str
) -> None:
    fleet.node("n1")
    assert vgpu(fleet, "cordon", "n1-0", "--reason", reason) == 2
    assert "at most 200 printable characters" in capsys.readouterr().err
    assert fleet.cordoned("n1") == ""
