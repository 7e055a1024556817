"""What shells and kubectl are told about the words that a person writes."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from device_plugin.wiring import completion
from device_plugin.wiring.commands import main
from hack.embedded.apiserver import EmbeddedApiServer
from hack.embedded.apiserver.server import policy_files
from tests.builders import objects
from tests.cli.fleet import USERS, Fleet
from tests.contract.cluster import JOBS

Ask = Callable[..., list[str]]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    def asked(*words: str) -> list[str]:
        assert main(["__complete", *words]) == 0
        return capsys.readouterr().out.splitlines()

    return asked


@pytest.mark.parametrize(
    ("words", "candidates", "directive"),
    [
        (("unc",), ["uncordon"], 4),
        (("cards", "--sort"), ["--sort-by"], 4),
        (("cards", "-o", ""), ["wide", "json", "yaml", "name"], 4),
        (("cards", "--output=j"), ["json"], 4),
        (("cards", "-o", "custom-columns="), [], 4),
        (("cards", "--sort-by", "mem"), ["memory"], 4),
        (("cards", "--kubeconfig", ""), [], 0),
        (("no-such-command", ""), [], 4),
        (("run", "hello", "--", "c"), [], 4),
    ],
)
def test_commands_options_and_their_values(
    ask: Ask, words: tuple[str, ...], candidates: list[str], directive: int
) -> None:
    *lines, last = ask(*words)
    assert [line.partition("\t")[0] for line in lines] == candidates
    assert last == f":{directive}"


def test_names_come_from_the_cluster_and_from_the_kubeconfig(ask: Ask, tmp_path: Path) -> None:
    server = EmbeddedApiServer(policy_files(), tokens=USERS)
    server.start()
    try:
        fleet = Fleet(server, tmp_path)
        fleet.node("n1", 2)
        fleet.node("n2")
        to = ("--kubeconfig", str(fleet.kubeconfig))
        assert ask("cards", *to, "n2") == ["n2\t1 cards", ":4"]
        assert ask("drain", *to, "n1-") == ["n1-0\ton n1", "n1-1\ton n1", ":4"]
        assert ask("cards", *to, "--context", "") == ["c", ":4"]
        fleet.post(JOBS, objects.job("train", 1))
        assert ask("logs", *to, "t") == ask("cancel", *to, "-n", "default", "") == ["train", ":4"]
        assert ask("attach", *to, "-n", "other", "") == [":4"]
        assert ask("jobs", *to, "") == ["admit\tstart a waiting job by hand", "train", ":4"]
        assert ask("queue", *to, "admit", "") == ["train", ":4"]
        fleet.node("n3", uuid="$(touch /tmp/owned)")
        assert "owned" not in "".join(ask("drain", *to, "")), "a shell would run it"
        config = json.loads(fleet.kubeconfig.read_text())
        config["clusters"][0]["cluster"]["server"] = "http://127.0.0.1:1"
        fleet.kubeconfig.write_text(json.dumps(config))
        assert ask("cards", *to, "n") == [":4"], "a cluster that is not there has no names"
        fleet.close()
    finally:
        server.stop()


def test_as_a_plugin_help_says_kubectl_vgpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/kubectl-vgpu", "cards", "--help"])
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().out.startswith("usage: kubectl vgpu cards ")


def test_kubectl_asks_with_the_words_after_the_plugins_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-vgpu", "cor"])
    assert completion.main() == 0
    assert capsys.readouterr().out == "cordon\tgive a card no new slices\n:4\n"


@pytest.mark.parametrize("shell", sorted(completion.SHELLS))
def test_each_shell_takes_its_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    if (found := shutil.which(shell)) is None:
        assert "vgpu __complete" in script
        return
    subprocess.run([found, "-n"], input=script, text=True, check=True)


def test_bash_completes_a_word(tmp_path: Path) -> None:
    fake = tmp_path / "vgpu"
    fake.write_text("#!/bin/sh\nprintf 'cards\\tabout\\ncordon\\n:4\\n'\n")
    fake.chmod(0o755)
    lines = [completion.SHELLS["bash"], "COMP_WORDS=(vgpu c) COMP_CWORD=1", "_vgpu", 'echo "${COMPREPLY[@]}"']
    done = subprocess.run(
        ["bash", "-c", "\n".join(lines)], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert done.stdout == "cards cordon\n"
