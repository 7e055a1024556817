"""`make e2e`: build what is missing, start clusters, install the project from its manifests, test, tear down.

The tests run in lanes, each on a cluster of its own: much of them is waiting for Kubernetes. With arguments for pytest
there is one lane, with those tests. With --kubeconfig the tests run on that cluster instead, which must have the
overlay `simulated`.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path

from hack.testbed import archives, images, install, layout, previous, programs, rbac
from hack.testbed.cluster import PROJECT, Cluster, ClusterError
from hack.testbed.install import OVERLAY, admission, product
from hack.testbed.layout import Layout

# These tests wait for conditions; the timeout is for tests that hang.
PYTEST = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--timeout=900", "--durations=8")
AT_ONCE = 4


class Installed(Enum):
    """The parts of the product on a cluster before its tests: all, by kustomize or helm; its policies; nothing."""

    OVERLAY = "overlay"
    CHART = "chart"
    ADMISSION = "admission"
    NOTHING = "nothing"


@dataclass(frozen=True)
class Lane:
    """A lane: tests that run one after another on one cluster, and what must be installed there before.

    `images` are added to the images of every cluster, `components` to the product. `settings` are environment variables
    of the job engine, if it is one of the components.
    """

    name: str
    nodes: int
    tests: tuple[str, ...]
    installed: Installed = Installed.OVERLAY
    images: tuple[str, ...] = ()
    components: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)


# Tests that wait for most of their time. The last test of WAITING cuts a node's power.
LEADERS = ("tests/e2e/test_leaders.py",)
WAITING = ("tests/e2e/test_burst.py", "tests/e2e/test_writes.py", "tests/e2e/test_power.py")
# Tests with the job engine. Jobs train with PyTorch, whose image is as large as all others together. The last test
# removes the engine.
JOBS = tuple(
    f"tests/e2e/test_{name}.py"
    for name in (
        "elastic", "job_engine", "job_kinds", "queued_kinds", "job_faults", "passing_queues", "run", "monitoring",
        "queue_commands",
    )
)  # fmt: skip
# Tests with the job engine on several nodes. The last test cuts a node's power.
STRANDED = tuple(f"tests/e2e/test_{name}.py" for name in ("chart", "consent", "job_pools", "stranded_jobs"))
# Tests of slices by ResourceClaim, a component of its own.
CLAIMS = ("tests/e2e/test_claims.py", "tests/e2e/test_claim_evictions.py")
# The test of a documentation page for newcomers, which installs the product and removes it.
START = ("tests/e2e/test_start.py",)
# Settings with which Jobs shrink and grow without a delay, and with a known speed of a model.
QUICK = {
    "VGPU_COOLDOWN_SECONDS": "1",
    "VGPU_YOUNG_SECONDS": "0",
    "VGPU_RATES": '["resnet50 Z100 100"]',
}
ELSEWHERE = tuple(f"--ignore={file}" for file in (*LEADERS, *WAITING, *JOBS, *STRANDED, *CLAIMS, *START))
# The longest lanes come first; the last one starts when the shortest of the others, `contract`, has ended.
LANES = (
    Lane("running", 3, ("tests/e2e", *ELSEWHERE, "-m", "not disturbs")),
    Lane("leaders", 3, LEADERS),
    Lane("waiting", 3, WAITING),
    Lane("jobs", 1, JOBS, images=("trainer",), components=("jobs",), settings=QUICK),
    Lane("contract", 1, ("tests/contract", "tests/manifests/test_helm.py"), Installed.ADMISSION),
    Lane("disturbed", 3, ("tests/e2e", *ELSEWHERE, "-m", "disturbs")),
    Lane(
        "stranded",
        2,
        STRANDED,
        Installed.CHART,
        components=("jobs",),
        settings={"VGPU_STRANDED_SECONDS": "5", "VGPU_QUANTUM_SECONDS": "1", "VGPU_YOUNG_SECONDS": "0"},
    ),
    Lane("claims", 2, CLAIMS, components=("dra",)),
    Lane("start", 2, START, Installed.NOTHING),
)


def main() -> int:
    """Run the tests; returns 1 if a test failed or could not be run."""
    parser = argparse.ArgumentParser(prog="make e2e", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, help="run on this cluster")
    parser.add_argument("--keep", action="store_true", help="leave the cluster up")
    arguments, rest = parser.parse_known_args()
    os.environ["VGPU_E2E"] = "true"
    if arguments.kubeconfig:
        environment = {**os.environ, "KUBECONFIG": str(arguments.kubeconfig.resolve())}
        command = [*PYTEST, *(rest or ["tests/e2e"])]
        return subprocess.run(command, env=environment, cwd=PROJECT, check=False).returncode
    try:
        found = programs.ensure()
        earlier = previous.prepare()
        built = [*images.build_all(), *earlier.archives]
        archives.imported(built, found.containerd)  # once, before all clusters need it at the same time
    except programs.MissingError as error:
        print(error, file=sys.stderr)
        return 1
    os.environ["VGPU_E2E_PREVIOUS"] = str(earlier.source)
    if rest or arguments.keep:
        chosen = Lane("chosen", 3, tuple(rest or ["tests/e2e"]))
        special = (lane for lane in LANES if lane.components or lane.installed is Installed.NOTHING)
        jobs = next((lane for lane in special if any(word.startswith(lane.tests) for word in rest)), None)
        if jobs is not None:
            chosen = replace(jobs, name=chosen.name, tests=chosen.tests, images=images.SPECIAL)
        return run(chosen, Cluster(layout.here(), found), built, keep=arguments.keep).status
    return _all_lanes(found, built)


def _all_lanes(found: programs.Programs, built: Sequence[Path]) -> int:
    clusters = [Cluster(Layout(layout.here().root / lane.name), found) for lane in LANES]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = list(pool.map(lambda lane, cluster: run(lane, cluster, built), LANES, clusters))
    differences = rbac.check([cluster.layout.audit for cluster in clusters])
    print("\n".join(differences) or "RBAC: every permission is used, and every use is permitted")
    # The failures are printed again at the end, because the lanes' outputs are mixed.
    print(*(line for result in results for line in result.failures), sep="\n", flush=True)
    return 1 if differences or any(result.status for result in results) else 0


def _install(lane: Lane, cluster: Cluster, overlay: Path | None) -> None:
    match lane.installed:
        case Installed.OVERLAY:
            product(cluster, overlay or _overlay(lane, cluster.layout))
        case Installed.CHART:
            install.chart(
                cluster, {"jobs": {"enabled": "jobs" in lane.components, "env": dict(lane.settings)}}
            )
        case Installed.ADMISSION:
            admission(cluster, overlay or _overlay(lane, cluster.layout))
        case Installed.NOTHING:
            pass


def _overlay(lane: Lane, where: Layout) -> Path:
    """The folder with the manifests of the product for the lane (tests that share a cluster)."""
    if not lane.components:
        return OVERLAY
    added = [
        {
            "op": "add",
            "path": "/spec/template/spec/containers/0/env/-",
            "value": {"name": name, "value": value},
        }
        for name, value in lane.settings.items()
    ]
    patch = {"target": {"kind": "Deployment", "name": "vgpu-jobs"}, "patch": json.dumps(added)}
    return install.overlay(where, "simulated", lane.components, patches=[patch] if added else [])


@dataclass(frozen=True)
class LaneResult:
    """The result of a lane (tests that share a cluster): pytest's exit status, and its output."""

    status: int
    output: str

    @property
    def failures(self) -> list[str]:
        """The lines about tests that failed."""
        return [line for line in self.output.splitlines() if line.startswith(("FAILED ", "ERROR "))]


def run(
    lane: Lane, cluster: Cluster, built: Sequence[Path], overlay: Path | None = None, *, keep: bool = False
) -> LaneResult:
    """Run one lane (tests that share a cluster), with the product from `overlay`; at the end print pytest's output."""
    begin = time.monotonic()
    try:
        cluster.up(lane.nodes, [*built, *map(images.build, lane.images)])
        _install(lane, cluster, overlay)
        where = {"VGPU_CONTRACT_KUBECONFIG": str(cluster.layout.kubeconfig)}
        status, output = cluster.output([*PYTEST, *lane.tests], **where)
    except ClusterError as error:
        status, output = 1, f"{error}\n"
    finally:
        if not keep:
            cluster.down()
    print(
        f"{output}{lane.name}: {'failed' if status else 'passed'}, {time.monotonic() - begin:.0f} s",
        flush=True,
    )
    if keep:
        print("the cluster is left up: hack/cluster kubectl get pods -A; hack/cluster down")
    return LaneResult(status, output)


if __name__ == "__main__":
    sys.exit(main())
