"""Every command of README and docs/start.md, on the one-machine cluster, for somebody who has no kubectl.

docs/start.md prints there what it shows; helm, which is no part of this project, is left out. README's commands are run
on the demo that `make demo KEEP=1` leaves.
"""

import importlib.metadata
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import urllib3

from hack.demo import access, session
from hack.demo.demo_api import DemoApi
from hack.demo.leave import leave
from hack.embedded.cluster import EmbeddedCluster, Options
from tests import transcript
from tests.deadline import eventually
from vgpu_runtime import sim
from vgpu_runtime.paths import SOURCES

pytestmark = pytest.mark.usefixtures("native")
PROJECT = SOURCES.parent
START = (PROJECT / "docs/start.md").read_text(encoding="utf-8")
README = (PROJECT / "README.md").read_text(encoding="utf-8")
CARDS = "version: v1\ncards:\n  - {preset: hygon-60cu-16gib, count: 4}\n"
SECONDS = 60
# Commands that a reader would give again until they print what is shown.
READS = (
    "kubectl get",
    "kubectl exec",
    *(f"kubectl vgpu {verb}" for verb in ("nodes", "cards", "pods", "why", "quota", "waste", "check")),
)


def shell(root: Path, folder: Path) -> Mapping[str, str]:
    """The environment of a shell after `eval "$(vgpu demo env)"`: no other kubectl, and the packages of make demo."""
    lines = f"PATH=/usr/bin:/bin\n{access.variables(root)}"
    told = subprocess.run(["sh", "-c", f"{lines}\nenv"], check=True, capture_output=True, text=True).stdout
    named = dict(
        line.split("=", 1) for line in told.splitlines() if line.startswith(("PATH=", "KUBECONFIG="))
    )
    hidden = folder / "hidden"
    hidden.mkdir()
    locked = (PROJECT / "requirements/demo.lock").read_text(encoding="utf-8")
    installed = {*re.findall(r"^([a-z0-9-]+)==", locked, re.MULTILINE), "vgpu", "vgpu-laboratory"}
    for module, distributions in importlib.metadata.packages_distributions().items():
        if module.isidentifier() and not installed & {
            name.lower().replace("_", "-") for name in distributions
        }:
            (hidden / f"{module}.py").write_text("raise ImportError('make demo does not install it')\n")
    return {**named, "HOME": str(folder), "COLUMNS": "100", "LANG": "C.UTF-8", "PYTHONPATH": str(hidden)}


def ran(command: str, folder: Path, environment: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, check=False, text=True, timeout=SECONDS,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


@pytest.fixture
def two_nodes(tmp_path: Path) -> Iterator[Mapping[str, str]]:
    """The environment of a reader of docs/start.md after `helm install`: two nodes of four cards."""
    cards = [replace(card, unique_id=0) for card in sim.parse(CARDS)]
    nodes = {f"gpu-{machine + 1}": sim.number(cards, machine) for machine in range(2)}
    with (
        tempfile.TemporaryDirectory(prefix="vg-") as folder,
        EmbeddedCluster(Path(folder), nodes, Options(shown=True)) as cluster,
    ):
        access.prepare(cluster.root, cluster.api.url)
        yield shell(cluster.root, tmp_path)


def test_the_first_page_prints_what_it_shows(two_nodes: Mapping[str, str], tmp_path: Path) -> None:
    transcript.write_files(START, tmp_path)
    ran("kubectl label node gpu-1 gpu-2 vgpu.io/node-", tmp_path, two_nodes)
    replayed = [step for step in transcript.steps(START) if not step.command.startswith("helm ")]
    assert len(replayed) >= 20
    wrong = [text for step in replayed if (text := replay(step, tmp_path, two_nodes))]
    assert not wrong, "\n".join(wrong)


def replay(step: transcript.Step, folder: Path, environment: Mapping[str, str]) -> str:
    """How the output of a command differs from what is shown, as text; empty if it does not."""
    printed = ""

    def same() -> bool:
        nonlocal printed
        printed = ran(step.command, folder, environment).stdout
        return not transcript.difference(step.shown, printed.splitlines())

    if eventually(same, SECONDS, every=0.2) if step.command.startswith(READS) else same():
        return ""
    difference = transcript.difference(step.shown, printed.splitlines())
    return f"{step.section}: $ {step.command}\n{difference}\nall of it:\n{printed}"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """The environment of somebody at the demo that was kept, whose folder has README's pod."""
    folder = tmp_path_factory.mktemp("reader")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VGPU_SESSION", str(folder / "session.json"))
        subprocess.run([sys.executable, "-c", "from hack.demo import session; session.start()"], check=True)
        current = session.require()
        try:
            with closing(DemoApi(current)) as api:
                leave(api)
            environment = shell(Path(current.root), folder)
            (pod,) = re.findall(
                r"^```yaml\n(.*?)^```$", README.partition("## Try it")[0], re.DOTALL | re.MULTILINE
            )
            (folder / "notebook.yaml").write_text(pod)
            assert (
                ran("kubectl apply -f notebook.yaml", folder, environment).stdout == "pod/notebook created\n"
            )
            ran("kubectl wait --for=condition=Ready pod/notebook --timeout=1m", folder, environment)
            yield environment
        finally:
            session.end()


def shown() -> dict[str, str]:
    """The commands of README for users of the cluster, by their verbs: indented lines, and those inside sentences."""
    part = README.partition("## One pod")[2].partition("## Limits of isolation")[0]
    lines = re.findall(r"^    (kubectl vgpu .+)$", part, re.MULTILINE)
    lines += re.findall(r"`((?:kubectl exec|vgpu run) [^`]+)`", part)
    found = [shlex.join(shlex.split(line, comments=True)) for line in lines]
    return {line.removeprefix("kubectl ").removeprefix("vgpu ").split()[0]: line for line in found}


# What the answer of each command has, on a demo with README's pod.
ANSWERS = {
    "exec": "core group", "cards": "default/notebook main: 4 GiB", "fit": "1 of 1 fit now",
    "why": "notebook", "check": "ok       admission    all policies are present and bound", "run": "\nhello\n",
    "waste": "no slice", "ui": "http://127.0.0.1:",
}  # fmt: skip


def test_readme_shows_no_command_that_is_not_tried() -> None:
    assert set(shown()) == set(ANSWERS)


@pytest.mark.parametrize("verb", [verb for verb in ANSWERS if verb != "ui"])
def test_a_command_of_readme_answers(verb: str, demo: Mapping[str, str]) -> None:
    command, printed = shown()[verb], ""

    def answered() -> bool:
        nonlocal printed
        done = ran(command, Path(demo["HOME"]), demo)
        printed = done.stdout
        return ANSWERS[verb].lower() in printed.lower() and done.returncode == 0

    # Beside much other work an API server may not answer a read in time.
    assert eventually(answered, SECONDS, every=0.2) if command.startswith(READS) else answered(), printed


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("vgpu queue", "train  default"),
        ("vgpu why train", "default/train running: runs with 2 pods"),
        ("vgpu why huge", "From the API server's lists and the allocator's 0 reservations"),
        ("vgpu top", "notebook-a"),
        ("vgpu pods -A", "notebook-a"),
        ("vgpu nodes", "node-1"),
        ("kubectl logs notebook-a", '"error":"hipSuccess"'),
        ("kubectl logs job/train", '"error":"hipSuccess"'),
        ("kubectl get pods,jobs", "train"),
        ("kubectl describe job train", "JobAdmitted"),
    ],
)
def test_what_else_people_try_answers(command: str, answer: str, demo: Mapping[str, str]) -> None:
    done = ran(command, Path(demo["HOME"]), demo)
    assert (answer in done.stdout, done.returncode) == (True, 0), done.stdout
    assert "not known" not in done.stdout, done.stdout


def test_use_is_known_where_programs_report_it(demo: Mapping[str, str]) -> None:
    """The agent is asked through the API server, at its pod."""

    def used() -> bool:
        lines = ran("vgpu top", Path(demo["HOME"]), demo).stdout.splitlines()
        return any(line.startswith("notebook-a ") and "1/4 GiB" in line for line in lines)

    assert eventually(used, SECONDS, every=0.5)


def test_the_page_opens(demo: Mapping[str, str]) -> None:
    with subprocess.Popen(
        shlex.split(shown()["ui"]), env=demo, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            lines = iter(process.stdout or ())
            address = next(found[0] for line in lines if (found := re.search(r"http://\S+", line)))
            page = urllib3.request("GET", address, retries=False)
            assert (page.status, b"vgpu" in page.data) == (200, True)
        finally:
            process.terminate()
            process.wait(SECONDS)
