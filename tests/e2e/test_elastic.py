"""PyTorch that trains on, whatever becomes of its replicas: a Job of torchrun's agents that the job engine resizes."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial

import pytest

from device_plugin.kube.api import JOBS
from device_plugin.wiring.commands import main
from hack.elastic import steps
from hack.elastic.steps import Step
from hack.testbed.images.trainer import PROGRAM as TRAIN
from hack.testbed.images.trainer import TRAINER
from tests.e2e import nodes, service
from tests.e2e.kubectl import Kubectl, KubectlError
from tests.e2e.machines import Machines
from tests.e2e.queued_jobs import queued, running
from tests.e2e.slices import inventory
from tests.e2e.waiting import eventually
from tests.exposed import families
from tests.release import NAMED
from tests.requirement import require

INTERVAL = 20
INDEX = "batch.kubernetes.io/job-completion-index"
OPTIONS = f"--folder=/data --steps=1000000 --interval={INTERVAL} --step-seconds=0.1"
# -r 1 -t 1: without them torchrun of PyTorch 1.13 fails on Python 3.11.
PROGRAM = ("torchrun", "-r", "1", "-t", "1", f"/{TRAIN}", *OPTIONS.split())
SETTLED, SECONDS = 30, 100


class Training:
    """A Job that trains on the first node, in a folder of that node."""

    def __init__(self, kubectl: Kubectl, machines: Machines) -> None:
        self.node = nodes.first()
        self._kubectl, self._machines = kubectl, machines
        self._folder = f"/run/training/{kubectl.namespace}"

    def start(self, least: int, most: int, printed: Callable[[], str]) -> None:
        """Create what `vgpu run` writes for torchrun: a Job of `least` to `most` replicas, and a Service of index 0."""
        command = ["run", "train", f"--image={TRAINER}", f"--cards={most}", f"--min={least}", f"--max={most}"]
        assert (
            main([*command, "--grace=30", "--volume=data:/data", "--dry-run", "-o", "json", "--", *PROGRAM])
            == 0
        )
        made = json.loads(printed())
        template = made["items"][-1]["spec"]["template"]["spec"]
        # A folder of the node, and what Kubernetes before 1.36 leaves to people.
        folder = {"name": "volume-0", "hostPath": {"path": self._folder, "type": "DirectoryOrCreate"}}
        template |= {"volumes": [folder], **nodes.on(self.node), **NAMED}
        self._kubectl.create(*made["items"])

    def pods(self) -> Mapping[str, str]:
        """The names of the pods that run and are to stay, by index."""
        return {
            item["metadata"]["labels"][INDEX]: item["metadata"]["name"]
            for item in self._kubectl.items(labels="job-name=train")
            if item["status"]["phase"] == "Running" and "deletionTimestamp" not in item["metadata"]
        }

    def steps(self) -> list[Step]:
        """The steps done so far."""
        script = f"cat {self._folder}/steps 2>/dev/null || true"
        return steps.read(self._machines.run(self.node, "sh", "-c", script))

    def trained(self, world: int, before: list[Step]) -> list[Step]:
        """What was done after `before`, once enough of it was done by so many ranks."""

        def settled() -> list[Step]:
            found = self.steps()[len(before) :]
            return found if sum(step.world == world for step in found) >= SETTLED else []

        found = eventually(settled, SECONDS, every=1)
        assert found, f"{world} ranks train; last steps: {self.steps()[-3:]}, pods: {self.pods()}"
        return found

    def lost(self, since: list[Step]) -> int:
        """How many steps were done again after `since`."""
        return steps.lost(self.steps()) - steps.lost(since)


@pytest.fixture
def training(kubectl: Kubectl, machines: Machines) -> Iterator[Training]:
    held = nodes.get(nodes.first())["status"].get("images", [])
    there = any(TRAINER in name for image in held for name in image.get("names", []))
    require(there, "needs the image trainer on the nodes: make e2e ARGS=tests/e2e/test_elastic.py")
    require(len(inventory(nodes.first())["cards"]) == 4, "needs a node with four cards")
    made = Training(kubectl, machines)
    yield made
    if kubectl.has(JOBS, "train"):  # before its pods are deleted one by one, and made again
        kubectl("delete", "job", "train", "--cascade=foreground", "--timeout=180s")


def test_a_job_gives_cards_to_others_and_takes_them_again_and_loses_no_step(
    kubectl: Kubectl, training: Training, capsys: pytest.CaptureFixture[str]
) -> None:
    training.start(2, 4, lambda: capsys.readouterr().out)
    training.trained(4, [])
    assert eventually(lambda: any(value > 0 for value in progress(training.node)), 30), (
        "the trainer says how far it is"
    )

    before = training.steps()
    kubectl.create(*(queued(name, 1) for name in ("a", "b")))
    for name in ("a", "b"):
        assert eventually(partial(running, kubectl, name, 1), 2 * SECONDS)
    assert set(training.pods()) == {"0", "1"}, "the highest indexes left"
    shrunk = steps.worlds(training.trained(2, before))
    assert shrunk == sorted(shrunk, reverse=True)
    assert training.lost(before) == 0

    before = training.steps()
    kubectl("delete", "job", "a", "b", "--cascade=foreground")
    grown = steps.worlds(training.trained(4, before))
    assert grown == sorted(grown)
    assert training.lost(before) == 0

    before, killed = training.steps(), training.pods()["3"]
    with suppress(KubectlError):  # the shell's own end
        kubectl.inside(killed, "sh", "-c", "kill -9 -1")
    assert eventually(lambda: training.pods().get("3", killed) != killed, SECONDS), (
        "the Job makes another pod"
    )
    training.trained(4, training.steps())
    assert training.lost(before) <= INTERVAL


def progress(node: str) -> list[float]:
    """What containers of the node say that they have done."""
    found = families(service.SYSTEM.metrics(service.agent(node), service.AGENT_PORT))
    return [
        sample.value
        for family in found.values()
        if family.name == "vgpu_progress_done"
        for sample in family.samples
    ]
