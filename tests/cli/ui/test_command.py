"""`vgpu ui` as a process: it prints the address once, serves the page there, and ends with Ctrl-C."""

import json
import signal
import subprocess
import sys
from contextlib import closing
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from device_plugin.wiring.commands import main
from tests.cli.fleet import Fleet
from vgpu_runtime.paths import SOURCES


def test_the_address_that_it_prints_has_the_page_until_ctrl_c(fleet: Fleet) -> None:
    fleet.node("n1", 1)
    command = [sys.executable, "-m", "device_plugin", "ui", "--kubeconfig", str(fleet.kubeconfig)]
    with subprocess.Popen(command, cwd=SOURCES.parent, stdout=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None
        address = urlsplit(serving.stdout.readline().strip())
        connection = HTTPConnection(address.hostname or "", address.port, timeout=20)
        token = address.fragment.removeprefix("token=")
        connection.request("GET", "/changes", headers={"Authorization": f"Bearer {token}"})
        with closing(connection), closing(connection.getresponse()) as stream:
            text = b""
            while b'["node","n1"' not in text:
                text += stream.readline()
            serving.send_signal(signal.SIGINT)
            rest = serving.stdout.read()
    assert (serving.returncode, rest) == (0, "The page shows the cluster as it changes. Ctrl-C ends it.\n")


@pytest.mark.parametrize("allowed", [True, False])
def test_changes_are_made_with_the_kubeconfig_if_they_are_allowed(fleet: Fleet, allowed: bool) -> None:
    fleet.node("n1", 1)
    option = ["--allow-changes"] if allowed else []
    command = [sys.executable, "-m", "device_plugin", "ui", "--kubeconfig", str(fleet.kubeconfig), *option]
    with subprocess.Popen(command, cwd=SOURCES.parent, stdout=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None
        address = urlsplit(serving.stdout.readline().strip())
        with closing(HTTPConnection(address.hostname or "", address.port, timeout=20)) as connection:
            token = address.fragment.removeprefix("token=")
            headers = {
                "Authorization": f"Bearer {token}", "Origin": f"http://{address.netloc}",
                "Content-Type": "application/json",
            }  # fmt: skip
            wanted = json.dumps({"action": "cordon", "node": "n1", "card": "n1-0"})
            connection.request("POST", "/change", wanted, headers)
            answer = connection.getresponse()
            told = answer.status, answer.read().decode().strip()
        serving.send_signal(signal.SIGINT)
    if allowed:
        assert told == (200, "n1-0 on n1 is cordoned")
    else:
        assert told == (404, "the page makes no changes: start vgpu ui with --allow-changes")
    assert fleet.cordoned("n1") == ("n1-0" if allowed else "")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--port", "70000"], "--port 70000 is out of range"),
        (["--prometheus", "localhost:9090"], "is no URL: write http://HOST:PORT"),
    ],
)
def test_wrong_words_are_refused(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    assert main(["ui", "--kubeconfig", str(fleet.kubeconfig), *words]) == 2
    assert told in capsys.readouterr().err
