"""`vgpu run` through the whole system: the job engine starts its Job, a container runs it, its output comes back."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from device_plugin.cli.run import follow
from device_plugin.kube.api import JOBS
from device_plugin.wiring.commands import main
from hack.demo import access
from hack.embedded.cluster import Options
from hack.embedded.person import Person, phase
from hack.measure.one_machine import one_machine
from hack.measure.random_pods import FLAGS
from tests.deadline import until
from vgpu_runtime import sim

pytestmark = pytest.mark.usefixtures("native")
CARDS = "version: v1\ncards:\n  - {preset: amd-60cu-16gib, count: 2}\n"
SECONDS = 60
WAITS = "small: waits in its queue: room for 1 pod"


@pytest.fixture(scope="module")
def person() -> Iterator[Person]:
    """A person at a cluster of one node with two cards, with a job engine; `kubectl` and $KUBECONFIG are for it."""
    quick = ("--young-seconds", "0", "--cooldown-seconds", "1")
    options = Options(flags=FLAGS, engines=1, engine_flags=quick, shown=True)
    with (
        one_machine({"n": sim.parse(CARDS)}, options) as (cluster, person),
        pytest.MonkeyPatch.context() as patch,
    ):
        access.prepare(cluster.root, cluster.api.url)
        patch.setenv("PATH", f"{cluster.root / 'bin'}:{os.environ['PATH']}")
        patch.setenv("KUBECONFIG", str(access.kubeconfig(cluster.root)))
        yield person


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks more often than people need."""
    monkeypatch.setattr(follow, "LOOK_SECONDS", 0.1)


def run(name: str, *options: str, program: str) -> int:
    return main(["run", name, "--image=none", *options, "--", "sh", "-c", program])


def test_what_a_program_prints_is_printed_and_it_ends_with_its_exit_status(
    person: Person, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert run("fails", "--mem=4", "--rm", program="for i in 1 2 3; do echo $i; done; exit 3") == 3
    told = capfdbinary.readouterr()
    assert told.out == b"1\n2\n3\n"
    assert b"fails failed: BackoffLimitExceeded: Job has reached the specified backoff limit" in told.err
    assert b" ended with 3" in told.err
    assert not person.api.list(JOBS).items


def test_while_it_waits_it_says_for_what_and_an_interrupted_one_is_deleted(
    person: Person, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("large", "--cards=2", "--detach", program="sleep 1000") == 0
    assert "job default/large is created; see it: vgpu why large -n default" in capfd.readouterr().out
    until(lambda: {phase(pod) for pod in person.pods() if "large" in pod["metadata"]["name"]} == {"Running"})
    command = [
        sys.executable,
        "-m",
        "device_plugin",
        "run",
        "small",
        "--image=none",
        "--mem=1",
        "--rm",
        "--",
        "true",
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        limit = threading.Timer(SECONDS, process.kill)
        limit.start()
        try:
            lines = iter(process.stderr or ())
            assert any(line.startswith(WAITS) for line in lines)
            process.send_signal(signal.SIGTERM)
            assert process.wait(SECONDS) == 130
        finally:
            limit.cancel()
            process.kill()
        assert list(lines) == ["interrupted; the Job is deleted\n"]
    assert "small" not in [job.name for job in person.api.list(JOBS).items if not job.deleting]
    person.delete("large", kind="Job")
