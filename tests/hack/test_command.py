"""hack/cluster: what it says when a command cannot be carried out, without a cluster."""

import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from hack.testbed import command, images, programs
from hack.testbed.cluster import Cluster
from hack.testbed.layout import CONTROL_PLANE

COMMANDS = (
    "up",
    "down",
    "kubectl",
    "run",
    "on",
    "logs",
    "start",
    "stop",
    "kill",
    "pause",
    "resume",
    "crash",
    "boot",
)


@pytest.fixture(autouse=True)
def root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A state folder that an earlier cluster of one node left."""
    monkeypatch.setenv("VGPU_TESTBED", str(tmp_path / "testbed"))
    monkeypatch.delenv("VGPU_TESTBED_INSIDE", raising=False)
    for machine in (CONTROL_PLANE, "n1"):
        (tmp_path / "testbed" / machine).mkdir(parents=True)
    (tmp_path / "testbed/n1/kubelet.yaml").touch()
    (tmp_path / "testbed/n1/kubelet.log").write_text("it said so\n")
    (tmp_path / "testbed/n1/machine.log").touch()
    return tmp_path / "testbed"


@pytest.fixture
def up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cluster, "pid", lambda _: 1)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, Sequence[Path]]]:
    """The clusters that `up` starts: nodes, and archives."""
    calls: list[tuple[int, Sequence[Path]]] = []
    monkeypatch.setattr(programs, "ensure", programs.installed)
    monkeypatch.setattr(images, "build", lambda name: Path(f"/{name}.tar"))
    monkeypatch.setattr(Cluster, "up", lambda _, nodes, archives: calls.append((nodes, archives)))
    return calls


def test_help_has_a_line_for_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--help"])
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("    ")]
    assert [words[0] for words in lines if len(words) > 1] == list(COMMANDS)


def test_up_loads_the_images_of_the_project(started: list[tuple[int, Sequence[Path]]]) -> None:
    assert command.main(["up"]) == 0
    assert started == [(3, [Path(f"/{name}.tar") for name in images.NAMES if name != "trainer"])]


def test_images_that_are_given_replace_them_but_for_that_of_the_sandbox(
    started: list[tuple[int, Sequence[Path]]], tmp_path: Path
) -> None:
    archive = tmp_path / "own.tar"
    with tarfile.open(archive, "w") as made:
        made.addfile(tarfile.TarInfo("index.json"))
    assert command.main(["up", "--nodes", "2", "--image", str(archive)]) == 0
    assert started == [(2, [archive, Path("/pause.tar")])]


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "No such file"), (b"text", "not a tar archive"), (bytes(10240), "no image in it")],
)
def test_a_file_that_is_no_archive_is_named_before_anything_starts(
    started: list[tuple[int, Sequence[Path]]],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    content: bytes | None,
    says: str,
) -> None:
    file = tmp_path / "own.tar"
    if content is not None:
        file.write_bytes(content)
    assert command.main(["up", "--image", str(file)]) == 1
    assert capsys.readouterr().err.startswith(f"hack/cluster: {file}: {says}")
    assert started == []


@pytest.mark.usefixtures("up")
@pytest.mark.parametrize("options", [["--nodes", "1"], ["--image", "a.tar"]])
def test_options_for_a_cluster_that_is_up_already_are_refused(
    started: list[tuple[int, Sequence[Path]]], capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    assert command.main(["up"]) == 0
    assert "up already, with 1 nodes" in capsys.readouterr().out
    assert command.main(["up", *options]) == 1
    assert "run hack/cluster down first" in capsys.readouterr().err
    assert started == []


@pytest.mark.parametrize(
    "words", ["kubectl get nodes", "run true", "on n1 true", "logs n1 kubelet", "stop n1 kubelet", "boot n1"]
)
def test_what_needs_a_cluster_says_how_to_start_one(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(words.split()) == 1
    assert capsys.readouterr().err == "hack/cluster: no cluster is up: hack/cluster up\n"


@pytest.mark.usefixtures("up")
def test_logs_say_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["logs", "n1"]) == 0
    assert capsys.readouterr().out == "kubelet\nmachine\n"
    assert command.main(["logs", "n1", "kubelet"]) == 0
    assert capsys.readouterr().out == "it said so\n"
    assert command.main(["logs", "n1", "etcd"]) == 1
    assert "no log of etcd on n1; there are: kubelet, machine" in capsys.readouterr().err


@pytest.mark.usefixtures("up")
@pytest.mark.parametrize("words", ["logs n9 kubelet", "stop n9 kubelet", "crash n9", "on n9 true"])
def test_a_machine_that_is_not_there_is_named(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(words.split()) == 1
    assert "there is no machine n9; there are: control-plane, n1" in capsys.readouterr().err


def test_down_says_what_it_did(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, root: Path
) -> None:
    assert command.main(["down"]) == 0
    assert capsys.readouterr().out == "no cluster was up\n"
    monkeypatch.setattr(Cluster, "pid", lambda _: 1)
    monkeypatch.setattr(Cluster, "down", lambda _: None)
    assert command.main(["down"]) == 0
    assert capsys.readouterr().out == f"down; logs stay in {root}\n"
