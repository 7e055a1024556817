"""docs/start.md, replayed on a cluster on which nothing of ours is installed: what it shows is what a reader sees."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from hack.testbed.cluster import PROJECT
from tests.e2e.kubectl import Kubectl
from tests.e2e.waiting import eventually
from tests.requirement import require
from tests.transcript import Step, difference, steps, write_files

PAGE = (PROJECT / "docs/start.md").read_text(encoding="utf-8")
# What a reader's cluster has and this one has not: a registry, real cards, and nodes and cards of these names.
HERE = {
    "--set image.repository=registry.example.com/vgpu": "--set simulatedCards.enabled=true",
    "GPU-11223344550000": "GPU-112233445554ec",  # as the simulated cards of n1 are called
    "gpu-1": "n1",
    "gpu-2": "n2",
}
SECONDS = 360
READS = (
    "kubectl get",
    "kubectl exec",
    *(f"kubectl vgpu {verb}" for verb in ("nodes", "cards", "pods", "why", "quota")),
)
# kubectl finds its plugin where this environment's programs are.
ENVIRONMENT = {**os.environ, "COLUMNS": "100", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


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
    wrong = [replay(step, folder) for step in steps(PAGE)]
    assert not any(wrong), "\n".join(wrong)


def replay(step: Step, folder: Path) -> str:
    """Run a command; returns how its output differs from what is shown, as text, empty if it does not.

    What only reads is run until it prints what is shown, as a reader would try again.
    """
    command, shown = here(step.command), [here(line) for line in step.shown]
    printed = ""

    def same() -> bool:
        nonlocal printed
        printed = subprocess.run(
            ["bash", "-c", command], cwd=folder, check=False, text=True, timeout=SECONDS,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=ENVIRONMENT,
        ).stdout  # fmt: skip
        return not difference(shown, printed.splitlines())

    if eventually(same, 60) if step.command.startswith(READS) else same():
        return ""
    return f"{step.section}: $ {command}\n{difference(shown, printed.splitlines())}\nall of it:\n{printed}"


def here(text: str) -> str:
    """The text with this cluster's words."""
    for word, ours in HERE.items():
        text = text.replace(word, ours)
    return text
