"""The cluster service as a process would run it, against the API server stand-in."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import urllib3

from device_plugin.embedded.apiserver import EmbeddedApiServer
from device_plugin.wiring import cluster
from device_plugin.wiring.settings import ClusterSettings, KubeSettings, SettingsError
from tests.deadline import eventually


@pytest.fixture
def api() -> Iterator[EmbeddedApiServer]:
    server = EmbeddedApiServer()
    server.start()
    yield server
    server.stop()


def _settings(server: str, **changed: str) -> ClusterSettings:
    listen = {"extender_listen": "127.0.0.1:0", "http_listen": "127.0.0.1:0", **changed}
    return ClusterSettings(pod_name="vgpu-0", kube=KubeSettings(server=server), **listen)  # type: ignore[arg-type]


@contextmanager
def _running(server: str, capsys: pytest.CaptureFixture[str]) -> Iterator[dict[str, str]]:
    """The service in a thread; yields where it listens, and checks that it ends well."""
    stop, ended = threading.Event(), list[int]()
    thread = threading.Thread(target=lambda: ended.append(cluster.run(_settings(server), stop)))
    thread.start()
    try:
        line = eventually(lambda: capsys.readouterr().out, 10)
        yield dict(word.split("=") for word in line.split()[1:])
    finally:
        stop.set()
        thread.join(15)
    assert ended == [0]


@pytest.fixture
def get() -> Iterator[Callable[[str], tuple[int, str]]]:
    pool = urllib3.PoolManager(retries=False)

    def get(url: str) -> tuple[int, str]:
        answer = pool.request("GET", f"http://{url}", timeout=5.0)
        return answer.status, answer.data.decode()

    yield get
    pool.clear()


def test_it_waits_for_an_api_server_that_is_down_says_so_and_recovers(
    api: EmbeddedApiServer, capsys: pytest.CaptureFixture[str], get: Callable[[str], tuple[int, str]]
) -> None:
    api.stop()
    with _running(api.url, capsys) as listening:
        ready, live = f"{listening['http']}/readyz", f"{listening['http']}/healthz"
        status, why = get(ready)
        assert status == 503
        assert "nodes and pods were not listed yet" in why
        assert "Lease" in why
        assert get(live)[0] == 200, "a restart would mend nothing"
        assert "vgpu_leader" not in get(f"{listening['http']}/metrics")[1]
        api.start()
        assert eventually(lambda: get(ready)[0] == 200, 20), get(ready)
        api.forget_requests()
        assert get(f"{listening['extender']}/explain")[0] == 200
        assert api.write_requests == [], "an idle service writes nothing"


def test_sigterm_ends_the_process_well(api: EmbeddedApiServer) -> None:
    flags = [f"--kube-server={api.url}", "--pod-name=vgpu-0", "--extender-listen=127.0.0.1:0"]
    command = [sys.executable, "-m", "device_plugin", "cluster", *flags, "--http-listen=127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().startswith("listening extender=127.0.0.1:")
            os.kill(process.pid, signal.SIGTERM)
            assert process.wait(15) == 0
        finally:
            process.kill()


@pytest.mark.parametrize("which", ["extender_listen", "http_listen"])
@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1:99999"])
def test_an_address_that_cannot_be_had_is_named(which: str, address: str) -> None:
    with pytest.raises(SettingsError, match=f"cannot listen on {address}"):
        cluster.run(_settings("http://127.0.0.1:1", **{which: address}), threading.Event())


def test_a_pod_name_that_no_host_can_have_is_refused() -> None:
    settings = ClusterSettings(pod_name="v" * 64, kube=KubeSettings(server="http://127.0.0.1:1"))
    with pytest.raises(SettingsError, match="63 characters"):
        cluster.run(settings, threading.Event())
