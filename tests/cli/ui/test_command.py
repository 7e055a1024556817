"""`vgpu ui` as a process: it prints the address once, serves the page there, and ends with Ctrl-C."""

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
