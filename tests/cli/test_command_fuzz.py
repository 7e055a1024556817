"""Random words, kubeconfigs, manifests and servers: no command of people ends in a traceback.

Each ends with 0, an answer of "no" (1), an error in one line (2), or 130, because Ctrl-C comes after a moment.
"""

import argparse
import copy
import importlib
import io
import json
import logging
import random
import signal
import socket
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import kubernetes.config  # noqa: F401 - otherwise Ctrl-C may come in the middle of an import
import pytest
import yaml

from device_plugin.wiring import commands
from device_plugin.wiring.commands import main
from tests.builders import objects
from tests.builders.cards import MEM
from tests.cli.fleet import Fleet
from tests.contract.cluster import JOBS

CASES, PARTS = 400, 4
# On a busy machine a part ends after this long, with the cases that it had until then.
PART_SECONDS = 120.0
# After this a person has had enough.
SECONDS, AGAIN_SECONDS = 0.4, 5.0
MODULES = {name: module for name, _, module in commands.for_people()}
# Details may be of any length; a program's own words are not ours.
LEFT_OUT = ("--verbose", "--help", "--rm")
KUBECTL = """#!/bin/sh
for number in 1 2 3 4; do
echo 'E1124 05:52:49.464210   30475 memcache.go:265] "Unhandled Error" err="couldn'"'"'t get the list"' >&2
done
echo "The connection to the server localhost:8080 was refused" >&2
exit 1
"""
PLUGIN = "#!/bin/sh\necho 'who are you' >&2\necho '{}'\n"
JUNK = (
    "", " ", "a", "A B", "/", "a/", "/a", "a/b/c", "pod/", "job/", "pod/a", "-", "-1", "0", "1", "9" * 30, "1e9", "nan",
    "inf", "0x1", "\N{LATIN SMALL LETTER E WITH ACUTE}", "\u65e5\u672c", "\u202e", "a\nb", "\x1b[31m", "..", "../..",
    "%2f", "a=b", "a,b", "=", ",", ":", "*", "$(x)", "'", '"', "{", "[", "null", "true", "\udcff", "x" * 300,
    "x" * 5000, "n1", "n1-0", "holder", "train", "default", "json", "-memory", "http://[", "/dev/null", "/nowhere",
)  # fmt: skip
# What a person may well write, by the name of the argument.
PLAUSIBLE = {
    "namespace": ("default",), "engine_namespace": ("vgpu-system",), "allocator_namespace": ("vgpu-system",),
    "agents_namespace": ("vgpu-system",), "context": ("c",), "as_user": ("jane",), "prefixes": ("hygon.com/dcu",),
    "prefix": ("hygon.com/dcu",), "card": ("n1-0", "n1/n1-1", "nowhere"), "node": ("n1", "n2"), "job": ("train", "a/b"),
    "jobs": ("train", "a/b"),
    "name": ("train", "holder", "waits", "pod/waits", "job/train", "new"), "mem": ("4", "99"), "cores": ("15",),
    "cards": ("1", "2"), "percent": ("25",), "count": ("3",), "replicas": ("2",), "min": ("1",), "max": ("4",),
    "widths": ("1,2,4,8", "2"),
    "timeout": ("0",), "selector": ("a=b", "a!=b"), "samples": ("1000",), "duration": ("2h",), "port": ("0", "1"),
    "output": ("wide", "json", "name", "jsonpath={..name}", "custom-columns=A:.name,B:.jobs[0]"),
    "env": ("A=b",), "volume": ("data:/data",), "fetch": ("/data/a:b",), "sort_by": ("-memory", "name", "since"),
    "reason": ("fan",), "image": ("I",), "queue": ("default",), "max_moves": ("2",), "core_groups": ("60",),
}  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, "", 0, -1, 1.5, True, "c", "a b", "a\nb", "\u65e5", [], {}, [1], {"name": "c"}, "https://", "http://127.0.0.1:1",
    "https://a..b", "http://127.0.0.1:99999", "/nowhere", "%", {"command": "no-such-plugin"}, {"command": "false"},
    {"command": "./plugin", "args": ["a"]}, {"command": 3}, {"name": "oidc", "config": {}}, "9" * 5000,
)  # fmt: skip
KEYS = (
    "token", "tokenFile", "exec", "auth-provider", "username", "as", "as-groups", "server", "certificate-authority",
    "certificate-authority-data", "client-certificate", "client-key-data", "tls-server-name", "proxy-url", "namespace",
    "insecure-skip-tls-verify", "extensions", "name", "context", "cluster", "user", "metadata", "spec", "containers",
    "resources", "limits", MEM, "annotations", "items", "kind", "parallelism",
)  # fmt: skip
ANSWERS: tuple[bytes, ...] = (
    b"SSH-2.0-x\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnull",
    b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n<!doctype ht", b"HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n",
    b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n",
    *(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(each), each) for each in (
        b'{"metadata": {}, "items": [{}, 1, null]}', b'{"metadata": {"name": "a"}, "spec": [], "items": 3}',
        b'{"metadata": {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "1"}, "items": []}',
        b'{"metadata": {"name": "a", "namespace": "default", "uid": "u"}, "spec": {}, "status": {}, "items": null}',
        b'{"metadata": {"resourceVersion": "1"}, "items": [{"metadata": {"name": "a", "namespace": "default"}}]}',
        b'{"metadata": {"resourceVersion": "1"}, "items": [{"metadata": {"name": "a", "namespace": "default",'
        b' "uid": "u", "creationTimestamp": "x", "annotations": {"vgpu.io/cards": "x", "vgpu.io/grant": "{}"}},'
        b' "spec": {"nodeName": 3, "containers": [{}]}, "status": []}]}',
    )),
)  # fmt: skip


class Stranger:
    """Answers each request with one of some answers; without any it says nothing at all."""

    def __init__(self, answers: Sequence[bytes], seed: int = 0) -> None:
        self._answers = answers
        self._random = random.Random(seed)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open = list[socket.socket]()
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(60)
        for each in (self._listener, *self._open):
            each.close()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            if not self._answers:
                self._open.append(connection)
                continue
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection:
                connection.settimeout(5)
                while connection.recv(1 << 16):
                    connection.sendall(self._random.choice(self._answers))
        except OSError:
            return


class Fuzz:
    """Random command lines, with the files that they name in one folder."""

    def __init__(self, seed: int, folder: Path, fleet: Fleet, ports: Sequence[int]) -> None:
        self._random = random.Random(seed)
        self._folder = folder
        self._fleet = fleet
        self._ports = ports

    def words(self) -> list[str]:
        """A command with random options and arguments."""
        pick = self._random
        name = pick.choice([*MODULES])
        parser = argparse.ArgumentParser(add_help=False)
        importlib.import_module(MODULES[name]).add_arguments(parser)
        found = [name]
        for action in parser._actions:
            if action.dest == "jobs":
                found += pick.choice(
                    ([], [], ["admit"], [self._value(action)], ["admit", self._value(action)])
                )
            elif not action.option_strings:
                found += [self._value(action)] if pick.random() < 0.9 else []
            elif action.option_strings[-1] in (*LEFT_OUT, "--kubeconfig"):
                continue
            elif pick.random() < 0.12:
                option = pick.choice(action.option_strings)
                found += [option] if action.nargs == 0 else [option, self._value(action)]
        if name not in ("convert", "completion") and pick.random() < 0.95:
            found += ["--kubeconfig", self._kubeconfig()]
        if name == "run":
            found += ["--image=I", "--mem=1"] if pick.random() < 0.7 else []
            found += ["--", *pick.sample(JUNK, 2)] if pick.random() < 0.8 else []
        # A shell asks how the last word goes on.
        return ["__complete", *found] if pick.random() < 0.1 else found

    def stdin(self) -> str:
        """What the command may read."""
        return self._text(self._pod())

    def _value(self, action: argparse.Action) -> str:
        pick = self._random
        if action.choices is not None and pick.random() < 0.8:
            return str(pick.choice([*action.choices]))
        if action.dest in ("file", "files", "split", "fetch") and pick.random() < 0.7:
            return pick.choice(["-", str(self._folder), self._written("pod.yaml", self._text(self._pod()))])
        if action.dest == "prometheus" and pick.random() < 0.7:
            return f"http://127.0.0.1:{pick.choice(self._ports)}"
        return pick.choice(PLAUSIBLE.get(action.dest, JUNK) if pick.random() < 0.7 else JUNK)

    def _kubeconfig(self) -> str:
        pick = self._random
        if pick.random() < 0.3:
            return str(self._fleet.kubeconfig)
        if pick.random() < 0.1:
            return pick.choice([*JUNK, str(self._folder), f"{self._fleet.kubeconfig}:/nowhere", "/dev/null"])
        whole = json.loads(self._fleet.kubeconfig.read_text())
        if pick.random() < 0.5:
            scheme = pick.choice(["http", "http", "http", "https"])
            whole["clusters"][0]["cluster"]["server"] = f"{scheme}://127.0.0.1:{pick.choice(self._ports)}"
        return self._written("config", self._text(whole) if pick.random() < 0.4 else json.dumps(whole))

    def _pod(self) -> dict[str, Any]:
        pod = objects.pod("fuzz", {MEM: "4"}, {"annotations": {"vgpu.io/card-model": "Z100"}})
        return objects.job("fuzz", 2, pod=pod["spec"]) if self._random.random() < 0.3 else pod

    def _text(self, whole: dict[str, Any]) -> str:
        """The object as YAML, with changes at random."""
        pick = self._random
        whole = copy.deepcopy(whole)
        for _ in range(pick.randrange(4)):
            self._change(whole)
        text = yaml.safe_dump(whole) if pick.random() < 0.5 else json.dumps(whole)
        for _ in range(pick.randrange(4) if pick.random() < 0.3 else 0):
            at = pick.randrange(len(text) + 1)
            text = (
                text[:at]
                + pick.choice(["", "{", "\t", "- ", "&a ", "*a", "!!int ", "\0", ": ", "'"])
                + text[at + pick.randrange(9) :]
            )
        return text

    def _change(self, whole: dict[str, Any]) -> None:
        """Change one value somewhere in the object."""
        pick = self._random
        place: Any = whole
        while True:
            inner = [key for key in (place if isinstance(place, dict) else range(len(place)))
                     if isinstance(place[key], dict | list) and place[key]]  # fmt: skip
            if not inner or pick.random() < 0.3:
                break
            place = place[pick.choice(inner)]
        value = copy.deepcopy(pick.choice(VALUES))
        if isinstance(place, dict):
            place[pick.choice([*place, *pick.sample(KEYS, 3)])] = value
        else:
            place[pick.randrange(len(place))] = value

    def _written(self, name: str, text: str) -> str:
        file = self._folder / name
        file.write_bytes(text.encode(errors="surrogateescape") or b"\xff")
        return str(file)


@contextmanager
def impatient() -> Iterator[None]:
    """Ctrl-C comes after SECONDS, and again where Python lost it; it is over with the block, wherever it came."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    me, over = threading.get_ident(), threading.Event()

    def press() -> None:
        pause = SECONDS
        while not over.wait(pause):
            pause = AGAIN_SECONDS
            signal.pthread_kill(me, signal.SIGINT)

    def interrupt(*_: object) -> None:
        if not over.is_set():
            raise KeyboardInterrupt

    thread = threading.Thread(target=press)
    try:
        try:
            # A shell starts what runs in the background with Ctrl-C ignored.
            signal.signal(signal.SIGINT, interrupt)
            thread.start()
            yield
        finally:
            over.set()
    finally:
        # Ctrl-C may have come before the line above, and comes only once in AGAIN_SECONDS.
        over.set()
        if thread.ident is not None:
            thread.join()
        for number, handler in handlers.items():
            signal.signal(number, handler)


@pytest.fixture(autouse=True)
def loud() -> Iterator[None]:
    """The product's loggers are as loud after the test as before it: `vgpu ui` silences them for its process."""
    logger = logging.getLogger("device_plugin")
    level = logger.level
    yield
    logger.setLevel(level)


@pytest.fixture
def policies() -> list[Path]:
    """No admission policies: the commands would wait for them."""
    return []


@pytest.fixture
def furnished(fleet: Fleet) -> Fleet:
    """A node with two cards, a pod that holds a slice, a pod and a Job that wait, and services that lead."""
    fleet.node("n1", 2)
    fleet.pod("holder", 12, "n1-0")
    fleet.pod("waits", 8)
    job = objects.job("train", 1, pod={"containers": [objects.container(limits={MEM: "8"})]})
    job["metadata"]["labels"] = {"vgpu.io/queue": "default"}
    fleet.post(JOBS, job)
    for name, namespace in (("vgpu-jobs", "vgpu-system"), ("vgpu-scheduler", "vgpu-system")):
        path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        fleet.post(path, {"metadata": {"name": name}, "spec": {"holderIdentity": "vgpu-0_a"}})
    return fleet


@pytest.fixture
def ports(furnished: Fleet) -> Iterator[Sequence[int]]:
    """Those of a port at which nobody listens, of the API server, and of servers that are none."""
    strangers = [Stranger(()), *(Stranger((answer,)) for answer in ANSWERS)]
    strangers += [Stranger(ANSWERS, seed=number) for number in range(4)]
    yield [1, int(furnished.url.rpartition(":")[2]), *(each.port for each in strangers)]
    for each in strangers:
        each.close()


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kubectl that only logs, a credential plugin that gives nothing, and no browser."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for file, text in ((programs / "kubectl", KUBECTL), (tmp_path / "plugin", PLUGIN)):
        file.write_text(text)
        file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr("webbrowser.open", lambda _: False)
    monkeypatch.chdir(tmp_path)


def ended(words: Sequence[str]) -> tuple[int, bool]:
    """The exit status of a command, and whether argparse refused its words."""
    try:
        with impatient():
            return main(words), False
    except SystemExit as refused:
        return int(refused.code or 0), True
    except KeyboardInterrupt as late:
        if any(each.name == main.__name__ for each in traceback.extract_tb(late.__traceback__)):
            raise
        # It came when the command had just ended.
        return 130, False


# Ctrl-C leaves sockets open for the moment that the process still has, and is lost in the destructor of an object.
@pytest.mark.filterwarnings(
    "ignore:unclosed <:ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.parametrize("part", range(PARTS))
def test_no_words_kubeconfig_or_server_make_a_command_fail_with_a_traceback(
    part: int, furnished: Fleet, ports: Sequence[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    seed = random.randrange(2**32)
    fuzz = Fuzz(seed, tmp_path, furnished, ports)
    deadline = time.monotonic() + PART_SECONDS
    for number in range(CASES // PARTS):
        if time.monotonic() > deadline:
            assert number, "not one command ended in time"
            break
        words = fuzz.words()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(fuzz.stdin().encode(errors="replace"))))
        status, refused = ended(words)
        said = capfd.readouterr()
        with capfd.disabled():
            about = f"seed {seed}, case {number} of part {part}: {words}: {status}, {said.err[-2000:]}"
        assert status in ((0, 2) if refused else (0, 1, 2, 130)), about
        for odd in ("Traceback", "defect of vgpu", "Exception", "memcache.go", "ERROR:root", "Errno"):
            assert odd not in said.err, about
            assert odd not in said.out, about
        if status == 2 and not refused:
            assert len([line for line in said.err.splitlines() if line.startswith("vgpu: ")]) == 1, about
