"""Every list has every option, and each has its effect."""

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli import cards, nodes, pods, queue, quota, top
from device_plugin.cli.access import engine
from device_plugin.cli.printing.output import Listing
from device_plugin.core.exit_status import INTERRUPTED
from device_plugin.kube.api import EVERYWHERE, Kind, Listed, Where
from device_plugin.kube.errors import ForbiddenError
from device_plugin.wiring.commands import main
from hack.embedded.apiserver import EmbeddedApiServer
from tests.cli.fleet import USERS, Fleet
from tests.deadline import eventually

LISTS: Mapping[str, Listing[Any]] = {
    "cards": cards.LISTING, "nodes": nodes.LISTING, "pods": pods.LISTING, "queue": queue.LISTING,
    "quota": quota.LISTING, "top": top.LISTING,
}  # fmt: skip
# Each names some rows, and no others.
SELECTORS = {
    "cards": "rack=1", "nodes": "rack=1", "pods": "app=x", "queue": "app=x", "quota": "app=x", "top": "app=x",
}  # fmt: skip
WITHOUT_WIDE = ("nodes", "quota")
ENGINE_JOBS = engine.jobs


def job(name: str) -> dict[str, Any]:
    return {
        "namespace": "default", "name": name, "queue": "default", "place": None, "phase": "running", "width": 1,
        "min": 1, "max": 1, "progress": None, "waitsFor": "", "since": 0, "nextChange": None, "why": "",
    }  # fmt: skip


@contextmanager
def filled(folder: Path) -> Iterator[Fleet]:
    """Two rows of each list, the first of which has the labels."""
    server = EmbeddedApiServer((), tokens=USERS)
    server.start()
    with closing(Fleet(server, folder)) as fleet:
        for number, name in enumerate(("n1", "n2")):
            labels = {"app": "x"} if not number else {}
            fleet.node(name)
            fleet.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {"rack": str(number + 1)}}})
            fleet.pod(f"p{number}", 4 * (number + 1), f"{name}-0", labels=labels)
            hard = {"requests.hygon.com/dcu-mem": "16"}
            quota = {"metadata": {"name": f"q{number}", "labels": labels}, "spec": {"hard": hard}}
            fleet.post("/api/v1/namespaces/default/resourcequotas", quota)
            template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]}}
            made = {"metadata": {"name": f"j{number}", "labels": labels}, "spec": {"template": template}}
            fleet.post("/apis/batch/v1/namespaces/default/jobs", made)
        yield fleet
    server.stop()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Rows that no test changes."""
    with filled(tmp_path_factory.mktemp("lists")) as fleet:
        yield fleet


@pytest.fixture(autouse=True)
def plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job engine tells of the two Jobs."""
    monkeypatch.setattr(engine, "jobs", lambda *_: [job("j0"), job("j1")])
    monkeypatch.setattr(queue, "ASK_SECONDS", 0.05)


Said = Callable[..., str]


@pytest.fixture
def said(shared: Fleet, capsys: pytest.CaptureFixture[str]) -> Said:
    """Runs a command that succeeds; returns what it prints."""

    def run(*words: str) -> str:
        assert main([*words, "--kubeconfig", str(shared.kubeconfig)]) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    return run


@pytest.mark.parametrize("command", LISTS)
def test_formats(said: Said, command: str) -> None:
    names = said(command, "-o", "name").split()
    assert len(names) == 2
    objects = json.loads(said(command, "-o", "json"))
    assert objects == yaml.safe_load(said(command, "-o", "yaml"))
    assert len(objects[LISTS[command].plural]) == 2
    plain, wide = said(command).splitlines()[0], said(command, "-o", "wide").splitlines()[0]
    titles = [column.title for column in LISTS[command].columns if column.wide]
    assert all(title in wide and title not in plain for title in titles)
    assert bool(titles) == (command not in WITHOUT_WIDE)


@pytest.mark.parametrize("command", LISTS)
def test_each_column_sorts_both_ways(said: Said, command: str) -> None:
    listed = said(command, "-o", "name").split()
    for word in LISTS[command].words():
        # The column of namespaces is there where there are several.
        every = ["-A"] if word == "namespace" else []
        up, down = (
            said(command, *every, "-o", "name", f"--sort-by={sign}{word}").split() for sign in ("", "-")
        )
        assert sorted(up) == sorted(listed)
        assert down == up[::-1]


@pytest.mark.parametrize("command", LISTS)
def test_labels_choose_rows(said: Said, command: str) -> None:
    chosen = said(command, "-o", "name", "-l", SELECTORS[command]).split()
    assert chosen
    assert set(chosen) < set(said(command, "-o", "name").split())
    assert said(command, "-o", "name", "-l", f"{SELECTORS[command]},none=such") == ""


CHANGES: Mapping[str, Callable[[Fleet, pytest.MonkeyPatch], object]] = {
    **dict.fromkeys(("cards", "nodes", "pods", "top"), lambda fleet, _: fleet.pod("new", 1, "n2-0")),
    "quota": lambda fleet, _: fleet.patch(
        "/api/v1/namespaces/default/resourcequotas/q1/status",
        {"status": {"hard": {"requests.hygon.com/dcu-mem": "16"},
                    "used": {"requests.hygon.com/dcu-mem": "12"}}},
    ),
    "queue": lambda _, patch: patch.setattr(engine, "jobs", lambda *_: [job("j0"), job("new")]),
}  # fmt: skip
"""What changes a list, and what is printed then."""
SEEN = {"cards": "new", "nodes": "n2", "pods": "new", "top": "new", "quota": "12/16", "queue": "new"}


@pytest.fixture
def ctrl_c() -> Iterator[Callable[[], None]]:
    """What Ctrl-C does to the process of the tests, also where it was started in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield lambda: os.kill(os.getpid(), signal.SIGINT)
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("command", LISTS)
def test_changes_are_printed_as_they_come_until_ctrl_c(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    ctrl_c: Callable[[], None],
    command: str,
) -> None:
    titles = [column.title for column in LISTS[command].columns if not column.wide]
    out = [""]

    def printed(text: str) -> bool:
        out[-1] += capsys.readouterr().out
        return text in out[-1] and out[-1].endswith("\n")

    def look(fleet: Fleet) -> None:
        """Look at the list, change something, look again, and end it."""
        if eventually(lambda: printed(titles[-1]) and out[-1].count("\n") >= 3, 60):
            out.append("")
            CHANGES[command](fleet, monkeypatch)
            eventually(lambda: printed(SEEN[command]), 60)
        ctrl_c()

    with filled(tmp_path) as fleet:
        person = threading.Thread(target=look, args=(fleet,))
        person.start()
        assert main([command, "-w", "--kubeconfig", str(fleet.kubeconfig)]) == INTERRUPTED
        person.join()
    _, changes = out
    assert SEEN[command] in changes
    assert titles[-1] not in changes, "the header is printed once"


@pytest.mark.usefixtures("rights_of_one_namespace")
@pytest.mark.parametrize(
    ("command", "plural", "group"),
    [
        ("pods", "pods", ""),
        ("top", "pods", ""),
        ("quota", "resourcequotas", ""),
        ("queue -l app!=none", "jobs", "batch"),
    ],
)
def test_with_the_rights_of_one_namespace_its_rows_are_shown_and_what_is_missing(
    shared: Fleet,
    capsys: pytest.CaptureFixture[str],
    command: str,
    plural: str,
    group: str,
) -> None:
    words = [*command.split(), "-A", "--kubeconfig", str(shared.kubeconfig)]
    assert main([*words, "-o", "name"]) == 0
    printed = capsys.readouterr()
    assert len(printed.out.split()) == 2
    told = f"you may not list {plural} of all namespaces: only those of namespace default are known. A rule"
    assert printed.err.startswith(told)
    assert main([*words, "-o", "json"]) == 0
    (missing,) = json.loads(capsys.readouterr().out)["missing"]
    rule = f'apiGroups: ["{group}"], resources: [{plural}], verbs: [list, watch], in a ClusterRole'
    assert missing["rule"] == rule


ALL_PODS = (
    "list pods of all namespaces, nor list pods of namespace default: have an administrator add the rule "
)
WITHOUT_RIGHTS = {
    "cards": f"you may not list nodes, nor {ALL_PODS}",
    "nodes": f"you may not list nodes, nor {ALL_PODS}",
    "pods": "you may not list pods of namespace default: have an administrator add the rule ",
    "pods -A": f"you may not {ALL_PODS}",
    "queue": "you may not list jobs of namespace default: have an administrator add the rule ",
    "queue -l app=x": "you may not list jobs of namespace default: have an administrator add the rule ",
    "queue -A -l app=x": "you may not list jobs of all namespaces, nor list jobs of namespace default: have an ",
    "quota": "you may not list resourcequotas of namespace default: have an administrator add the rule ",
    "top": "you may not list pods of namespace default: have an administrator add the rule ",
}


def test_the_table_of_lists_without_rights_has_all() -> None:
    assert {command.split()[0] for command in WITHOUT_RIGHTS} == LISTS.keys()


@pytest.mark.parametrize("more", [[], ["-o", "json"], ["-w"]], ids=" ".join)
@pytest.mark.parametrize("command", WITHOUT_RIGHTS)
def test_a_list_of_which_nothing_may_be_read_is_an_error(
    shared: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    command: str, more: list[str],
) -> None:  # fmt: skip
    def forbidden(*_: object) -> None:
        raise ForbiddenError("forbidden", 403, "Forbidden")

    monkeypatch.setattr(engine, "jobs", ENGINE_JOBS)
    monkeypatch.setattr(KubeClient, "get", forbidden)
    monkeypatch.setattr(KubeClient, "list", forbidden)
    assert main([*command.split(), *more, "--kubeconfig", str(shared.kubeconfig)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"vgpu: {WITHOUT_RIGHTS[command]}")


@pytest.mark.parametrize(("command", "plural"), [("cards", "nodes"), ("nodes", "nodes"), ("cards", "pods")])
def test_a_list_of_which_a_part_may_be_read_is_none(
    shared: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    command: str, plural: str,
) -> None:  # fmt: skip
    listed = KubeClient.list

    def limited(client: KubeClient, kind: Kind[Any], where: Where = EVERYWHERE) -> Listed[Any]:
        if kind.plural == plural:
            raise ForbiddenError("forbidden", 403, "Forbidden")
        return listed(client, kind, where)

    monkeypatch.setattr(KubeClient, "list", limited)
    assert main([command, "--kubeconfig", str(shared.kubeconfig), "-o", "name"]) == 0
    printed = capsys.readouterr()
    assert len(printed.out.split()) == 2
    assert printed.err.startswith(f"you may not list {plural}")


@pytest.mark.parametrize("command", LISTS)
def test_a_table_fits_80_columns(said: Said, command: str) -> None:
    assert max(map(len, said(command).splitlines())) <= 80
