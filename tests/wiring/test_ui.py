"""The page for a team as a process would run it, against the API server stand-in."""

import json
import shutil
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any

import msgspec
import pytest

from device_plugin.adapters.http import server as http
from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.endpoint import Endpoint
from device_plugin.core.contract.annotations import CARDS, GRANT, QUEUE
from device_plugin.core.contract.grants import Grant, Slice
from device_plugin.core.http_values import HttpAnswer
from device_plugin.kube.api import JOBS, NAMESPACES, NODES, PODS, RESOURCE_CLAIMS, Ref
from device_plugin.wiring import ui
from device_plugin.wiring.settings import KubeSettings, SettingsError, UiSettings
from hack.embedded.apiserver import EmbeddedApiServer
from hack.embedded.cluster import AGENT_USER
from hack.testbed.certificates import Authority
from tests.builders import objects
from tests.builders.agents import agent_pod
from tests.builders.cards import MEM, inventory, preparing
from tests.builders.claims import claim
from tests.deadline import eventually
from tests.requirement import require
from tests.wiring.conftest import SECONDS, Get, Running

PATHS = (
    "/session",
    "/use?node=n1&card=n1-0",
    "/day",
    "/why?pod={own}/waits",
    "/why?pod={other}/waits",
    "/none",
)


# The connections and answers of a test: a stream has no end at which it is closed by itself.
OPENED: list[HTTPConnection | HTTPResponse] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()


@pytest.fixture
def settings(api: EmbeddedApiServer, tmp_path: Path) -> UiSettings:
    token = tmp_path / "token"
    token.write_text("system:serviceaccount:vgpu-system:vgpu-ui")
    kube = KubeSettings(server=api.url, token_file=str(token))
    return UiSettings(listen="127.0.0.1:0", http_listen="127.0.0.1:0", kube=kube)


@pytest.fixture
def two_teams(api: EmbeddedApiServer) -> None:
    """Two namespaces, each with a pod that holds a slice, one that waits, and a Job; anna and bert may see one each."""
    admin = KubeClient(Endpoint(api.url, lambda: "Bearer system:admin"), "test")
    agent = KubeClient(Endpoint(api.url, lambda: f"Bearer {AGENT_USER}@n1"), "test")
    allocator = KubeClient(
        Endpoint(api.url, lambda: "Bearer system:serviceaccount:vgpu-system:vgpu-cluster"), "test"
    )
    with closing(admin), closing(agent), closing(allocator):
        admin.create(NODES, objects.node("n1"))
        agent.patch(NODES, Ref("n1"), objects.annotated(**{CARDS: inventory("n1").encode()}))
        for number, (user, team) in enumerate((("anna", "team-a"), ("bert", "team-b"))):
            admin.create(NAMESPACES, {"metadata": {"name": team}})
            for name, mem in ((f"holds-{team}", 4), (f"waits-{team}", 100)):
                pod = objects.pod(name, {MEM: mem}, schedulerName="vgpu-scheduler")
                uid = admin.create(PODS, pod, team).uid
                if name.startswith("holds"):
                    cores = tuple(range(number * 15, number * 15 + 15))
                    grant = Grant(uid, "n1", {"main": (Slice("n1-0", 4092, cores),)})
                    allocator.bind(Ref(name, team, uid), "n1", {GRANT: grant.encode()}, {})
            job = objects.job(
                f"train-{team}", pod={"containers": [objects.container(limits={MEM: 4})]}, suspend=True
            )
            job["metadata"]["labels"] = {QUEUE: "default"}
            admin.create(JOBS, job, team)
            api.grants |= {(user, "list", plural, team) for plural in ("pods", "jobs")}


class Browser:
    """A browser in which a user of the stand-in, whose tokens are the names of users, has logged in."""

    def __init__(self, address: str, user: str) -> None:
        self._address = address
        self._headers: dict[str, str] = {}
        own = {"Origin": f"http://{address}", "Content-Type": "application/json"}
        answer = self.ask("/login", "POST", json.dumps({"token": user}), own)
        assert answer.status == 200, answer.read()
        self._headers = {"Cookie": str(answer.getheader("Set-Cookie")).partition(";")[0]}

    def ask(
        self,
        path: str,
        method: str = "GET",
        body: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> HTTPResponse:
        connection = HTTPConnection(self._address, timeout=SECONDS)
        OPENED.append(connection)
        connection.request(method, path, body, {**self._headers, **(headers or {})})
        answer = connection.getresponse()
        OPENED.append(answer)
        return answer

    def entries(self) -> Iterator[tuple[str, list[list[Any]]]]:
        """The stream: after each message its text, and the entries so far."""
        answer = self.ask("/changes")
        assert answer.status == 200
        found: dict[tuple[str, str], Any] = {}
        for line in answer:
            text = line.decode()
            if text.startswith("event: anew"):
                found.clear()
            if text.startswith("data: ["):
                for kind, key, value in json.loads(text.removeprefix("data: ")):
                    found[kind, key] = value
                yield text, [[kind, key, value] for (kind, key), value in found.items() if value is not None]


def slices(*found: tuple[str, int]) -> str:
    """The metrics of an agent of n1, with these MiB in use by the pods of these namespaces."""
    return "".join(
        f'vgpu_slice_memory_used_bytes{{namespace="{team}",pod="holds-{team}",container="main",node="n1",card="n1-0"}}'
        f" {mib << 20}\n"
        for team, mib in found
    )


@pytest.mark.usefixtures("two_teams")
def test_each_user_sees_the_use_of_the_own_slices_and_nothing_of_anothers(
    api: EmbeddedApiServer, running: Running, settings: UiSettings
) -> None:
    text = slices(("team-a", 1111), ("team-b", 2222))
    with (
        http.Server(lambda _: HttpAnswer(text), "127.0.0.1:0") as agent,
        closing(KubeClient(Endpoint(api.url, lambda: "Bearer system:admin"), "test")) as admin,
    ):
        agent_pod(admin, int(agent.address.rpartition(":")[2]), "n1")
        with running(lambda stop: ui.run(settings, stop)) as listening:
            for user, own, used, others in (("anna", "team-a", 1111, 2222), ("bert", "team-b", 2222, 1111)):
                everything = ""
                for message, entries in Browser(listening["page"], user).entries():
                    everything += message
                    if {"use", "owner"} <= {kind for kind, *_ in entries}:
                        break
                found = {(kind, key): value for kind, key, value in entries if kind in ("use", "owner")}
                unused = 4092 - used
                assert found == {
                    ("use", f"n1 {own}"): {"n1-0": {f"holds-{own}/main": [used, None, unused, 0]}},
                    ("owner", f"{own}/Pod holds-{own}"): {
                        "namespace": own, "owner": f"Pod holds-{own}", "slices": 1, "idle": 0, "heldMiB": 4092,
                        "usedMiB": used, "unusedMiB": unused,
                    },
                }  # fmt: skip
                # Neither the other's figure, nor one from which it follows.
                for figure in (others, 4092 - others, used + others, 8184 - used - others):
                    assert str(figure) not in everything


@pytest.mark.usefixtures("two_teams")
def test_each_user_sees_the_place_of_the_own_job(
    api: EmbeddedApiServer, running: Running, settings: UiSettings
) -> None:
    text = "".join(
        f'vgpu_job_place{{namespace="{team}",job="train-{team}"}} {place}\n'
        for team, place in (("team-a", 31), ("team-b", 32))
    )
    with (
        http.Server(lambda _: HttpAnswer(text), "127.0.0.1:0") as engine,
        closing(KubeClient(Endpoint(api.url, lambda: "Bearer system:admin"), "test")) as admin,
    ):
        agent_pod(admin, int(engine.address.rpartition(":")[2]), "n1", "jobs", "vgpu-jobs-1")
        agent_pod(admin, 1, "n1", "jobs", "vgpu-jobs-gone")
        with running(lambda stop: ui.run(settings, stop)) as listening:
            for user, own, place in (("anna", "team-a", 31), ("bert", "team-b", 32)):
                stream = Browser(listening["page"], user).entries()
                jobs = next(
                    found
                    for _, entries in stream
                    if (found := {key: value for kind, key, value in entries if kind == "job"})
                    and all(job["place"] for job in found.values())
                )
                assert {key: job["place"] for key, job in jobs.items()} == {f"{own}/train-{own}": place}


@pytest.mark.usefixtures("two_teams")
def test_each_user_sees_the_own_namespace_and_no_name_of_the_other(
    api: EmbeddedApiServer, running: Running, settings: UiSettings, get: Get
) -> None:
    with running(lambda stop: ui.run(settings, stop)) as listening:
        assert eventually(lambda: get(f"{listening['http']}/readyz")[0] == 200, SECONDS)
        for user, own, other in (("anna", "team-a", "team-b"), ("bert", "team-b", "team-a")):
            browser = Browser(listening["page"], user)
            wanted = {
                ("waiting", f"{own}/waits-{own}"), ("job", f"{own}/train-{own}"), ("node", "n1"),
            }  # fmt: skip
            everything = ""
            for text, entries in browser.entries():
                everything += text
                if wanted <= {(kind, key) for kind, key, _ in entries}:
                    break
            assert f"holds-{own}" in everything
            assert other not in everything
            cards = next(value for kind, _, value in entries if kind == "node")["cards"]
            assert sorted(each["namespace"] for each in cards[0]["slices"]) == ["", own]
            assert [each["mib"] for each in cards[0]["slices"]] == [4092, 4092]
            for path in PATHS:
                answer = browser.ask(path.format(own=own, other=other))
                text = f"{answer.getheaders()} {answer.read().decode()}"
                assert other not in text, path
        written = {path for user, _, path in api.write_requests if user.endswith("vgpu-ui")}
        assert written == {
            "/apis/authentication.k8s.io/v1/tokenreviews", "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        }, "beside its questions it writes nothing"  # fmt: skip


@pytest.mark.usefixtures("two_teams")
def test_a_user_sees_what_waiting_pods_ask_for_in_claims(
    api: EmbeddedApiServer, running: Running, settings: UiSettings
) -> None:
    """In memory units of 512 MiB, as the cluster service is set too."""
    admin = KubeClient(Endpoint(api.url, lambda: "Bearer system:admin"), "test")
    agent = KubeClient(Endpoint(api.url, lambda: f"Bearer {AGENT_USER}@n1"), "test")
    with closing(admin), closing(agent):
        made = claim("slice", {"memory": "2Gi"})
        admin.create(RESOURCE_CLAIMS.json, {**made, "metadata": {"name": "slice"}}, "team-a")
        admin.create(PODS, objects.claiming("claims", "slice"), "team-a")
        agent.patch(NODES, Ref("n1"), objects.annotated(**{CARDS: preparing("n1").encode()}))
    settings = msgspec.structs.replace(settings, mem_unit_mib=512)
    with running(lambda stop: ui.run(settings, stop)) as listening:
        browser = Browser(listening["page"], "anna")
        for _, entries in browser.entries():
            rows = {key: value for kind, key, value in entries if kind == "waiting"}
            if "team-a/claims" in rows and rows["team-a/claims"]["asks"]:
                break
        assert rows["team-a/claims"]["asks"] == "hygon.com/dcu-mem: 4"


@pytest.mark.usefixtures("two_teams")
def test_a_right_that_is_granted_or_withdrawn_changes_an_open_page(
    api: EmbeddedApiServer, running: Running, settings: UiSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("device_plugin.cli.ui.server.ALIVE_SECONDS", 0.05)
    monkeypatch.setattr("device_plugin.cli.ui.team.view.LOOK_SECONDS", 0.05)
    for name in ("ALLOWED_SECONDS", "DENIED_SECONDS"):
        monkeypatch.setattr(f"device_plugin.cli.ui.team.rights.{name}", 0.1)

    def waiting(entries: list[list[Any]]) -> set[str]:
        return {key for kind, key, _ in entries if kind == "waiting"}

    with running(lambda stop: ui.run(settings, stop)) as listening:
        stream = Browser(listening["page"], "anna").entries()
        assert any(waiting(entries) == {"team-a/waits-team-a"} for _, entries in stream)
        api.grants.add(("anna", "list", "pods", "team-b"))
        assert any(len(waiting(entries)) == 2 for _, entries in stream)
        api.grants.clear()
        assert any(not waiting(entries) for _, entries in stream)


def test_a_token_for_another_audience_opens_nothing(running: Running, settings: UiSettings, get: Get) -> None:
    strict = msgspec.structs.replace(settings, audiences=["vgpu-ui"])
    with running(lambda stop: ui.run(strict, stop)) as listening:
        assert get(f"{listening['http']}/healthz")[0] == 200
        with pytest.raises(AssertionError, match="not accept"):
            Browser(listening["page"], "anna")


def test_the_page_over_tls(running: Running, settings: UiSettings, tmp_path: Path) -> None:
    require(shutil.which("openssl"), "openssl is missing: apt-get install openssl")
    authority = Authority(tmp_path / "tls")
    authority.create()
    authority.issue("page", "page", hosts=["localhost"])
    files = {
        "tls_cert_file": str(authority.file("page", "crt")),
        "tls_key_file": str(authority.file("page", "key")),
    }
    trusted = ssl.create_default_context(cafile=str(authority.certificate))
    with running(lambda stop: ui.run(msgspec.structs.replace(settings, **files), stop)) as listening:
        port = int(listening["page"].rpartition(":")[2])
        # A connection that never begins its handshake holds up nobody.
        with closing(HTTPConnection("localhost", port)) as silent:
            silent.connect()
            connection = HTTPSConnection("localhost", port, timeout=SECONDS, context=trusted)
            OPENED.append(connection)
            own = {"Origin": f"https://localhost:{port}", "Content-Type": "application/json"}
            connection.request("POST", "/login", json.dumps({"token": "anna"}), own)
            cookie = str(connection.getresponse().getheader("Set-Cookie"))
            assert cookie.startswith("__Host-vgpu=")
            assert "; Secure" in cookie


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"listen": "203.0.113.1:9406"}, "cannot serve the page on 203.0.113.1:9406"),
        ({"tls_cert_file": "/none", "tls_key_file": "/none"}, "cannot serve the page"),
        ({"proxy_user_header": "X-User", "proxy_secret_file": "/none"}, "No such file"),
    ],
    ids=str,
)
def test_what_cannot_be_served_is_said(settings: UiSettings, given: dict[str, Any], why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        ui.run(msgspec.structs.replace(settings, **given), threading.Event())


def test_a_secret_of_a_proxy_is_long(settings: UiSettings, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("short\n")
    given = msgspec.structs.replace(settings, proxy_user_header="X-User", proxy_secret_file=str(file))
    with pytest.raises(SettingsError, match="at least 16 characters"):
        ui.run(given, threading.Event())
