"""`vgpu demo`: what it says when it cannot do what it was asked. The story itself is told in tests/system."""

import json
import os
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from device_plugin.adapters.kube.endpoint import from_kubeconfig
from device_plugin.wiring.commands import main
from hack.demo import session
from hack.demo.demo_api import DemoApi
from hack.embedded.apiserver import EmbeddedApiServer
from tests.builders import objects

POD = "kind: Pod\nmetadata: {name: a}\nspec: {}\n"


@pytest.fixture(autouse=True)
def file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The session's."""
    monkeypatch.setenv("VGPU_SESSION", str(tmp_path / "session.json"))
    return tmp_path / "session.json"


def publish(folder: Path, api: str) -> None:
    """As if this process were a demo cluster with this API server."""
    started = session.process_start(os.getpid())
    assert started is not None
    session.publish(session.DemoSession(os.getpid(), started, str(folder), api, *["http://none"] * 3))


@pytest.fixture
def created(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """The pods that were created on a demo cluster, which stands still."""
    pods: list[Any] = []
    publish(tmp_path, "http://none")
    monkeypatch.setattr(DemoApi, "create", lambda _, pod: pods.append(pod))
    monkeypatch.setattr(DemoApi, "pods", lambda _: pods)
    return pods


@pytest.mark.usefixtures("created")
def test_a_second_cluster_is_refused_and_the_first_one_stays(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    assert main(["demo", "run"]) == 2
    told = capsys.readouterr()
    assert (told.out, "end it and its pods with `.venv/bin/vgpu demo end`" in told.err) == ("", True)
    assert file.exists()


@pytest.mark.parametrize(
    "words",
    [["status"], ["explain"], ["queue"], ["why", "a"], ["kubeconfig"], ["logs", "a"], ["delete", "a"]],
)
def test_without_a_cluster_it_says_how_to_start_one(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", *words]) == 2
    assert capsys.readouterr().err == "vgpu: no demo cluster is running: start one with `make demo KEEP=1`\n"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "No such file or directory"),
        (b"a: [\n", "not YAML: line 2: "),
        (b"\xff\x00\x01", "not YAML: it is no text"),
        (b"# nothing\n", "no pod or Job in it"),
        (b"words", "every document needs `kind: Pod` or `kind: Job`"),
        (b"kind: Pod\n", "a Pod needs `metadata` and `spec`"),
        (b"kind: Job\n", "a Job needs `metadata` and `spec`"),
        (f"{POD}---\nkind: Service\n".encode(), "every document needs `kind: Pod`"),
    ],
)
def test_a_file_that_holds_no_pods_is_refused_in_one_line_before_anything_is_created(
    created: list[Any], capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes | None, says: str
) -> None:
    file = tmp_path / "pods.yaml"
    if content is not None:
        file.write_bytes(content)
    assert main(["demo", "submit", str(file)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"vgpu: {file}: ")
    assert says in line
    assert created == []


def test_a_job_is_created_and_deleted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(json.dumps(objects.job("a")))
    server = EmbeddedApiServer()
    server.start()
    publish(tmp_path, server.url)
    assert main(["demo", "submit", str(file)]) == 0
    assert main(["demo", "delete", "job/a"]) == 0
    assert capsys.readouterr().out == "job/a created\njob/a deleted\n"
    assert main(["demo", "delete", "job/a"]) == 2
    assert 'jobs.batch "a" not found' in capsys.readouterr().err
    server.stop()


def test_logs_of_a_pod_that_is_not_there_name_those_that_are(
    created: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    created.append({"metadata": {"name": "a", "creationTimestamp": ""}})
    assert main(["demo", "logs", "a"]) == 0
    assert main(["demo", "logs", "nosuch"]) == 2
    assert capsys.readouterr().err == "vgpu: no pod nosuch; there are: a\n"


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (["explain"], "/explain"),
        (["explain", "a"], "/explain?pod=default%2Fa"),
        (["explain", "b/a"], "/explain?pod=b%2Fa"),
        (["why", "a"], "/explain?job=default%2Fa\n"),
        (["why", "b/a"], "/explain?job=b%2Fa\n"),
    ],
)
def test_the_services_are_asked_of_everything_or_of_one_pod_or_job(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str], asked: str
) -> None:
    class Echo(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.path.encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with HTTPServer(("127.0.0.1", 0), Echo) as service:
        started = session.process_start(os.getpid()) or 0
        explain = f"http://127.0.0.1:{service.server_port}"
        session.publish(
            session.DemoSession(
                os.getpid(), started, str(tmp_path), "http://none", explain, explain, "http://none"
            )
        )
        answering = threading.Thread(target=service.handle_request)
        answering.start()
        assert main(["demo", *words]) == 0
        answering.join()
    assert capsys.readouterr().out == asked


@pytest.mark.usefixtures("created")
def test_status_says_which_cards_are_out_of_service(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    card = {
        "uuid": "GPU-1", "model": "Z100", "slices": [], "coreGroups": 60, "freeMiB": 1, "memMiB": 1,
        "healthy": True, "cordoned": False,
    }  # fmt: skip
    others = [{**card, "uuid": "GPU-2", "cordoned": True}, {**card, "uuid": "GPU-3", "healthy": False}]
    monkeypatch.setattr(DemoApi, "cards", lambda _: [card, *others])
    assert main(["demo", "status"]) == 0
    shown = [line.split() for line in capsys.readouterr().out.splitlines() if "GPU" in line]
    assert [(line[0], line[-1]) for line in shown] == [
        ("GPU-1", "free"), ("GPU-2", "cordoned"), ("GPU-3", "UNHEALTHY"),
    ]  # fmt: skip


@pytest.mark.usefixtures("created")
def test_the_kubeconfig_leads_to_the_cluster(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["demo", "kubeconfig"]) == 0
    file = tmp_path / "kubeconfig"
    file.write_text(capsys.readouterr().out)
    assert from_kubeconfig(str(file)).url == "http://none"


def test_only_what_a_person_types_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--help"], ["nosuch"]):
        with pytest.raises(SystemExit):
            main(["demo", *words])
    told = capsys.readouterr()
    assert "serve" not in told.out + told.err
    assert "SUPPRESS" not in told.out
