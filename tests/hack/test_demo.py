"""`vgpu demo`: what it says when it cannot do what it was asked. The story itself is told in tests/system."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

from device_plugin.adapters.kube.endpoint import from_kubeconfig
from device_plugin.wiring.commands import main
from hack.demo import access, session
from hack.demo.show import StoryPage


@pytest.fixture(autouse=True)
def file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The session's."""
    monkeypatch.setenv("VGPU_SESSION", str(tmp_path / "session.json"))
    return tmp_path / "session.json"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder of a demo cluster that stands still: as if this process were one."""
    started = session.process_start(os.getpid())
    assert started is not None
    root = tmp_path / "it's"
    root.mkdir()
    session.publish(session.DemoSession(os.getpid(), started, str(root), "http://none", *["http://none"] * 3))
    access.prepare(root, "http://none")
    return root


@pytest.mark.usefixtures("root")
def test_a_second_cluster_is_refused_and_the_first_one_stays(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    assert main(["demo", "run"]) == 2
    told = capsys.readouterr()
    assert (told.out, "end it and its pods with `.venv/bin/vgpu demo end`" in told.err) == ("", True)
    assert file.exists()


def test_without_a_cluster_it_says_how_to_start_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "env"]) == 2
    assert capsys.readouterr().err == "vgpu: no demo cluster is running: start one with `make demo KEEP=1`\n"


def test_a_shell_that_reads_the_lines_has_kubectl_and_vgpu_for_the_cluster(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "env"]) == 0
    script = f'{capsys.readouterr().out}\nprintf \'%s\\n\' "$KUBECONFIG" "$(command -v kubectl)" "$(command -v vgpu)"'
    done = subprocess.run(
        ["sh", "-c", script], env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True
    )
    kubeconfig, kubectl, vgpu = done.stdout.splitlines()
    assert from_kubeconfig(kubeconfig).url == "http://none"
    assert kubectl == str(root / "bin/kubectl")
    assert Path(vgpu).name == "vgpu"


def test_the_last_line_of_a_cluster_that_is_kept_says_what_to_try(capsys: pytest.CaptureFixture[str]) -> None:
    StoryPage(Console(width=200)).end(21.0, keep=True)
    *_, shell, last = capsys.readouterr().out.splitlines()
    assert shlex.split(shell)[-2:] == ["eval", "$(.venv/bin/vgpu demo env)"]
    assert last.startswith("Then try: vgpu ui, ")


def test_only_what_a_person_types_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--help"], ["nosuch"]):
        with pytest.raises(SystemExit):
            main(["demo", *words])
    told = capsys.readouterr()
    assert "serve" not in told.out + told.err
    assert "SUPPRESS" not in told.out
