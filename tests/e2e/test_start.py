"""docs/start.md, replayed on a cluster on which nothing of ours is installed: what it shows is what a reader sees."""

import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from hack.testbed.cluster import PROJECT
from tests.e2e.kubectl import Kubectl
from tests.e2e.waiting import eventually
from tests.requirement import require
from tests.transcript import Step, difference, steps, write_files

PAGE = (PROJECT / "docs/start.md").read_text(encoding="utf-8")
# What a reader's cluster has and this one has not: a registry, real cards, and nodes of these names.
HERE = {
    "--set image.repository=registry.example.com/vgpu": "--set simulatedCards.enabled=true",
    "gpu-1": "n1",
    "gpu-2": "n2",
}
SECONDS = 240


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as the page begins in: the project's manifests, and the files that the page shows."""
    found = Kubectl("")("get", "daemonset", "--all-namespaces", "--output=name")
    require(not found, "needs a cluster without vgpu: make e2e ARGS=tests/e2e/test_start.py")
    folder = tmp_path_factory.mktemp("start")
    (folder / "manifests").symlink_to(PROJECT / "manifests")
    write_files(PAGE, folder)
    return folder


def test_no_task_takes_more_than_three_commands() -> None:
    tasks = Counter(step.section for step in steps(PAGE))
    assert tasks
    assert max(tasks.values()) <= 3, tasks


def test_every_command_prints_what_the_page_shows(folder: Path) -> None:
    for step in steps(PAGE):
        replay(step, folder)


def replay(step: Step, folder: Path) -> None:
    """Run a command; what only reads is run until it prints what is shown, as a reader would try again."""
    command, shown = here(step.command), [here(line) for line in step.shown]
    again = (
        step.command.startswith(("kubectl get", "kubectl vgpu", "kubectl exec")) and " cordon " not in command
    )
    wrong = ""

    def run() -> bool:
        nonlocal wrong
        done = subprocess.run(
            ["bash", "-c", command], cwd=folder, check=False, text=True, timeout=SECONDS,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, "COLUMNS": "100"},
        )  # fmt: skip
        wrong = difference(shown, done.stdout.splitlines())
        wrong = wrong and f"{step.section}: $ {command}\n{wrong}\nall of it:\n{done.stdout}"
        return not wrong

    assert eventually(run, 20) if again else run(), wrong


def here(text: str) -> str:
    """The text with this cluster's words."""
    for word, ours in HERE.items():
        text = text.replace(word, ours)
    return text
