"""hack/nightly: the contract suite, touches and Jobs on an older Kubernetes; random transactions of more seeds.

Installs the overlay kubernetes-1.31: pods name their scheduler themselves. The last line says how it went.
Needs root and Go.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from hack.testbed import images, layout, programs
from hack.testbed.cluster import PROJECT, Cluster
from hack.testbed.e2e import Installed, Lane, LaneResult, run
from hack.testbed.install import overlay
from hack.testbed.layout import Layout

RELEASE, OLDER = "1.34", "kubernetes-1.31"
# Seeds, and random events of each; after every event the ledger must equal a model and its rebuild.
SEEDS, EVENTS = range(20), 100_000
# Pods of test_reuse.py.
REUSES = 300
LANES = (
    Lane("contract", 1, ("tests/contract",), Installed.ADMISSION),
    Lane(
        "older",
        3,
        (
            "tests/e2e/test_touch.py",
            "tests/e2e/test_requests.py::test_a_job_ends_and_gives_its_slices_back",
            "tests/e2e/test_reuse.py",
        ),
    ),
)


def main() -> int:
    """0 if all tests passed."""
    argparse.ArgumentParser(prog="hack/nightly", description=__doc__).parse_args()
    os.environ |= {programs.RELEASE: RELEASE, "VGPU_E2E": "true", "VGPU_E2E_REUSES": str(REUSES)}
    begin = time.monotonic()
    try:
        found = programs.ensure()
    except programs.MissingError as error:
        print(error, file=sys.stderr)
        return 1
    seeds = [sys.executable, "-m", "tests.core.test_transactions", str(EVENTS), *map(str, SEEDS)]
    transactions = subprocess.run(seeds, cwd=PROJECT, check=False).returncode
    archives = images.build_all()
    clusters = [Cluster(Layout(layout.here().root / lane.name), found) for lane in LANES]
    results = [
        run(lane, cluster, archives, older(cluster.layout))
        for lane, cluster in zip(LANES, clusters, strict=True)
    ]
    ended = "; ".join(f"{lane.name} {summary(r)}" for lane, r in zip(LANES, results, strict=True))
    release = programs.version("k8s.io/kubernetes")
    ended += f"; transactions of {len(SEEDS)} seeds {'failed' if transactions else 'passed'}"
    print(f"nightly on Kubernetes {release}: {ended}; {time.monotonic() - begin:.0f} s")
    return 1 if transactions or any(result.status for result in results) else 0


def older(where: Layout) -> Path:
    """The overlay for this release, with simulated cards and its scheduler."""
    scheduler = {"name": "registry.k8s.io/kube-scheduler", "newTag": programs.version("k8s.io/kubernetes")}
    return overlay(where, OLDER, ["simulated-cards"], images=[scheduler])


def summary(result: LaneResult) -> str:
    """The result of pytest in a line: `5 passed, 1 skipped`."""
    ends = re.findall(r"^=+ (.*) in [0-9.]+s.*=+$", result.output, re.MULTILINE)
    return str(ends[-1]) if ends else "did not run"


if __name__ == "__main__":
    sys.exit(main())
