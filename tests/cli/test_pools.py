"""The commands for people, where several replicas of the job engine plan a pool each."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from device_plugin.adapters.http import server as http
from device_plugin.core.contract.annotations import POOL
from device_plugin.core.node_constraints import NodeConstraints, Operator, Requirement
from device_plugin.jobs.show.explain import JobExplainer
from device_plugin.wiring.commands import main
from hack.embedded.apiserver import EmbeddedApiServer
from tests.cli.fleet import USERS, Fleet
from tests.cli.test_queue import LEASES, kubectl
from tests.jobs.pools.world import PoolsWorld

FORWARDS = """#!/bin/sh
case "$*" in {}esac
echo "Forwarding from 127.0.0.1:$port -> 9404"
exec /bin/sleep 1000
"""


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    """Replicas a and b with a job each, which kubectl reaches, and the Lease of the dispatcher, a."""
    world = PoolsWorld({"n1": "x", "n2": "y"})
    for name in "xy":
        world.queue(name, 2, nodes=NodeConstraints((Requirement(POOL, Operator.IN, (name,)),)))
    for _ in range(12):
        world.turn()
    assert sorted(world.planners().values()) == ["a", "b"]
    server = EmbeddedApiServer(tokens=USERS)
    server.start()
    made = Fleet(server, tmp_path)
    lease = {"metadata": {"name": "vgpu-jobs"}, "spec": {"holderIdentity": "a"}}
    made.post(LEASES, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **lease})
    with ExitStack() as stack:
        cases = ""
        for name, engine in world.replicas.items():
            app = JobExplainer(engine.known, engine.planners)
            listening = stack.enter_context(http.Server(app, "127.0.0.1:0", silence=5))
            cases += f"*pod/{name}*) port={listening.port};; "
        kubectl(monkeypatch, tmp_path, FORWARDS.format(cases))
        yield made
    made.close()
    server.stop()


def test_the_queue_is_what_all_planners_know(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["queue", "--kubeconfig", str(fleet.kubeconfig)]) == 0
    _, *jobs = capsys.readouterr().out.splitlines()
    rows = [line.split() for line in jobs if not line.startswith(" ")]
    assert [(row[0], row[3]) for row in rows] == [("x", "running"), ("y", "running")]


@pytest.mark.parametrize("job", ["x", "y"])
def test_why_a_job_is_where_it_is_says_who_plans_it(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], job: str
) -> None:
    assert main(["why", job, "--kubeconfig", str(fleet.kubeconfig)]) == 0
    text = capsys.readouterr().out
    assert f"default/{job} running: " in text
    assert f"It is in pool hygon.com/dcu/{job}, which " in text
