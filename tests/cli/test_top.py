"""What pods use of their slices, by the agents, by a Prometheus, and without either."""

import json
import math
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli.access.prometheus import Prometheus
from device_plugin.cli.printing import follow
from device_plugin.cli.reading.held_use import SliceUse
from device_plugin.cli.reading.slice_use import (
    AT_A_TIME,
    FEW_NODES,
    FRESH_SECONDS,
    LIVE_SECONDS,
    MOST_AGENTS,
    PATIENCE_SECONDS,
    SliceUseReader,
    UseUnknownError,
    from_agents,
    from_prometheus,
)
from device_plugin.core.pods import Agent
from device_plugin.kube.api import EVERYWHERE, Kind, Listed, Where
from device_plugin.kube.errors import ForbiddenError, UnknownError
from device_plugin.wiring.commands import main
from tests.cli.figures import MIB, Figures
from tests.cli.fleet import Fleet

LABELS = 'node="n1",card="n1-0",namespace="{}",pod="a",container="main"'
USE = SliceUse("default", "a", "main", "n1", "n1-0", 512 * MIB, 4092 * MIB, 0.5)


NODES = ("n1", "n2")


def metrics(namespace: str = "default") -> str:
    labels = LABELS.format(namespace)
    return (
        "# HELP vgpu_slice_memory_used_bytes Memory.\n"
        f"vgpu_slice_memory_used_bytes{{{labels}}} {512 * MIB}\n"
        f"vgpu_slice_memory_limit_bytes{{{labels}}} {4092 * MIB:.10e}\n"
        f"vgpu_slice_compute_ratio{{{labels}}} 0.5\n"
        f"vgpu_slice_processes{{{labels}}} 1.0\n"
    )


HANGS = "an agent that never answers"


class Agents(KubeClient):
    """A client of a cluster with these agents: what each answers, or why it does not."""

    def __init__(self, answers: Sequence[str | Exception]) -> None:
        self._answers = {f"vgpu-node-{i}": answer for i, answer in enumerate(answers)}
        self.asked, self.lists = list[str](), 0
        self.now = 0.0

    def list(self, kind: Kind[Any], where: Where = EVERYWHERE) -> Listed[Any]:
        assert (kind.item, where.namespace) == (Agent, "vgpu-system")
        self.lists += 1
        agents = [Agent(pod, f"n{i}", "10.0.0.1:9400") for i, pod in enumerate(self._answers, 1)]
        return Listed([each for each in agents if where.fields in ("", f"spec.nodeName={each.node}")])

    def text(self, path: str, deadline: float = math.inf) -> str:
        *_, pod, proxy, last = path.split("/")
        self.asked.append(pod.partition(":")[0])
        assert (proxy, last, pod.partition(":")[2]) == ("proxy", "metrics", "9400")
        answer = self._answers[pod.partition(":")[0]]
        if answer == HANGS:
            assert deadline < math.inf
            self.now = max(self.now, deadline)
            raise UnknownError("no answer in time")
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.mark.parametrize(("namespace", "found"), [("", 2), ("default", 1), ("team-a", 1), ("team-b", 0)])
def test_agents_tell_the_use_of_their_slices(namespace: str, found: int) -> None:
    uses, failed = from_agents(Agents([metrics(), metrics("team-a")]), "vgpu-system", namespace, NODES)
    assert len(uses) == found
    assert failed == []
    assert (USE in uses) == (namespace in ("", "default"))


def test_an_agent_that_does_not_answer_is_named_and_the_others_are_shown() -> None:
    uses, failed = from_agents(Agents([metrics(), UnknownError("timed out")]), "vgpu-system", "", NODES)
    assert uses == [USE]
    assert failed == ["the agent of n2 does not answer: timed out"]


def test_agents_that_hang_are_waited_for_once_all_together(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [f"n{i}" for i in range(1, 101)]
    api = Agents([metrics(), *[HANGS] * 99])
    monkeypatch.setattr(time, "monotonic", lambda: api.now)
    uses, failed = from_agents(api, "vgpu-system", "", nodes)
    assert uses == [USE]
    assert len(failed) == 99
    assert api.now == PATIENCE_SECONDS
    assert len(api.asked) <= 2 * AT_A_TIME, "who is left when the time is over is not asked"


def test_an_agent_that_talks_nonsense_is_named_and_the_others_are_shown() -> None:
    broken = metrics().replace("0.5", "half")
    uses, (failed,) = from_agents(Agents([metrics(), broken]), "vgpu-system", "", NODES)
    assert uses == [USE]
    assert failed.startswith("the agent of n2 does not answer:")


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ([ForbiddenError("pods/proxy is forbidden", 403, "Forbidden")], "pods/proxy], verbs: .list, get."),
        ([], "no node agent runs in namespace vgpu-system"),
    ],
)
def test_where_agents_cannot_be_asked_the_text_says_what_would_help(
    answers: Sequence[str | Exception], says: str
) -> None:
    with pytest.raises(UseUnknownError, match=says):
        from_agents(Agents(answers), "vgpu-system", "", NODES)


def test_only_agents_of_the_nodes_of_the_pods_are_asked() -> None:
    few = Agents([metrics()] * 30)
    assert from_agents(few, "vgpu-system", "", ["n2", "n40"]) == ([USE], ["no agent runs on n40"])
    assert (few.asked, few.lists) == (["vgpu-node-1"], 2)
    many = Agents([metrics()] * 30)
    assert from_agents(many, "vgpu-system", "", [f"n{i}" for i in range(1, 21)])[1] == []
    assert (len(many.asked), many.lists) == (20, 1)


def test_the_agents_of_a_large_cluster_are_not_asked() -> None:
    nodes = [f"n{i}" for i in range(MOST_AGENTS + 1)]
    api = Agents([metrics()] * (MOST_AGENTS + 1))
    with pytest.raises(UseUnknownError, match="name a Prometheus with --prometheus, or fewer pods"):
        from_agents(api, "vgpu-system", "", nodes)
    assert (api.asked, api.lists) == ([], 0)


@pytest.mark.parametrize(
    ("live", "nodes", "seconds"),
    [(False, 1, FRESH_SECONDS), (True, 1, LIVE_SECONDS), (True, FEW_NODES + 1, FRESH_SECONDS)],
)
def test_an_answer_is_asked_for_again_once_it_is_old(
    monkeypatch: pytest.MonkeyPatch, live: bool, nodes: int, seconds: float
) -> None:
    now, api = [0.0], Agents([metrics()] * nodes)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    args = Namespace(agents_namespace="vgpu-system", prometheus=None, live=live)
    reader, names = SliceUseReader(api, args, ""), [f"n{i}" for i in range(1, nodes + 1)]
    assert reader.read(names) == reader.read(names) == {(*USE[:3], "n1-0"): USE}
    now[0] = seconds - 0.1
    reader.read(names)
    assert len(api.asked) == nodes
    now[0] = seconds
    reader.read(names)
    assert len(api.asked) == 2 * nodes


def test_a_prometheus_is_asked_instead_also_where_it_renamed_labels(prometheus: Figures) -> None:
    assert from_prometheus(Prometheus(prometheus.url), "vgpu-system", "default") == [USE]
    assert from_prometheus(Prometheus(prometheus.url), "vgpu-system", "team-a") == []


def test_top_and_pods_show_the_use_that_a_prometheus_knows(
    fleet: Fleet, prometheus: Figures, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.node("n1", 2)
    fleet.pod("a", 4, "n1-0", labels={"app": "x"})
    fleet.pod("b", 4, "n1-1")
    config = ("--kubeconfig", str(fleet.kubeconfig), "--prometheus", prometheus.url)

    def rows(*words: str) -> list[list[str]]:
        assert main([*words, *config]) == 0
        return [line.split() for line in capsys.readouterr().out.splitlines()]

    assert rows("top") == [
        ["POD", "NODE", "MEMORY", "COMPUTE"],
        ["a", "n1", "█░░░░░░░░░", "0.5/4", "GiB", "█████░░░░░", "50%"],
        ["b", "n1", "?/4", "GiB", "?"],
    ]
    assert [row[0] for row in rows("top", "-l", "app=x")] == ["POD", "a"]
    header, a, b = rows("pods", "--sort-by=-used")
    assert header == ["NAME", "NODE", "CARD", "MEMORY", "GROUPS", "SINCE", "STATUS"]
    assert (a[3:8], b[3:8]) == (["0.5/4", "GiB", "50%", "of", "15"], ["?/4", "GiB", "?", "of", "15"])
    assert main(["pods", "-o", "json", *config]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(pod["usedBytes"], pod["compute"]) for pod in found["pods"]] == [(512 * MIB, 0.5), (None, None)]
    assert (found["notes"], found["missing"]) == ([], [])
    assert main(["top", "-o", "json", *config]) == 0
    a = json.loads(capsys.readouterr().out)["slices"][0]
    assert (a["usedBytes"], a["limitBytes"], a["compute"]) == (512 * MIB, 4092 * MIB, 0.5)
    assert main(["cards", "-o", "json", *config]) == 0
    holder = json.loads(capsys.readouterr().out)["cards"][0]["holders"][0]
    shared = holder.keys() & a.keys() - {"namespace", "pod", "container"}
    assert shared == {"usedBytes", "compute", "idleSeconds", "peakBytes", "observedSeconds"}
    assert {key: holder[key] for key in shared} == {key: a[key] for key in shared}


def test_without_agents_grants_are_shown_and_that_their_use_is_not_known(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.node("n1")
    fleet.pod("a", 4, "n1-0")
    assert main(["top", "--kubeconfig", str(fleet.kubeconfig)]) == 0
    said = capsys.readouterr()
    assert [line.split() for line in said.out.splitlines()] == [
        ["POD", "NODE", "MEMORY", "COMPUTE"],
        ["a", "n1", "?/4", "GiB", "?"],
    ]
    assert said.err == "use is not known: no node agent runs in namespace vgpu-system\n"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://127.0.0.1:1", "Prometheus at 127.0.0.1:1 cannot be asked (connection refused)"),
        ("", "this Prometheus has no figures of these pods from node agents in namespace other"),
    ],
)
def test_without_its_figures_slices_are_shown_and_a_prometheus_is_a_note(
    fleet: Fleet, prometheus: Figures, capsys: pytest.CaptureFixture[str], url: str, says: str
) -> None:
    fleet.node("n1")
    fleet.pod("b", 4, "n1-0")
    config = ("--kubeconfig", str(fleet.kubeconfig), "--agents-namespace", "other")
    for command in ("top", "pods"):
        assert main([command, "--prometheus", url or prometheus.url, *config]) == 0
        said = capsys.readouterr()
        assert [line.split()[0] for line in said.out.splitlines()[1:]] == ["b"]
        assert says in said.err


def test_a_list_that_is_followed_says_what_is_not_answered_any_more(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def twice(_: threading.Event, show: Callable[[], None], __: float | None) -> int:
        monkeypatch.setattr(SliceUseReader, "notes", ("down",))
        show()
        show()
        return 0

    monkeypatch.setattr(SliceUseReader, "read", lambda *_: {})
    monkeypatch.setattr(SliceUseReader, "__init__", lambda *_, **__: None)
    monkeypatch.setattr(follow, "show_changes", twice)
    fleet.node("n1")
    fleet.pod("b", 4, "n1-0")
    for command in (["top"], ["pods", "-o", "wide"]):
        monkeypatch.setattr(SliceUseReader, "notes", (), raising=False)
        assert main([*command, "-w", "--kubeconfig", str(fleet.kubeconfig)]) == 0
        assert capsys.readouterr().err == "down\n"
