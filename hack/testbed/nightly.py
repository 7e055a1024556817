"""hack/nightly: what takes too long for make e2e, in parts, each of which can be run alone.

The last line says how each part went. Parts that need no root and no Go say so.
"""

import argparse
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hack.measure import pairs, userlands
from hack.testbed import controllers, images, layout, programs
from hack.testbed.cluster import PROJECT, Cluster
from hack.testbed.e2e import QUICK, Installed, Lane, LaneResult, run
from hack.testbed.install import overlay
from hack.testbed.layout import Layout

# The environment variable with which tests/e2e/nightly runs its tests.
WANTED = "VGPU_NIGHTLY"
OLDER_RELEASES, OLDER = ("1.34", "1.35"), "kubernetes-1.31"
# The seeds, and the number of random events per seed; after every event the ledger must equal a model and its rebuild.
SEEDS, EVENTS = range(20), 100_000
# A factor (tests/effort.py).
TIMES = 10
PYTEST = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--no-cov")
# Pods of test_reuse.py.
REUSES = 300
# The last of these tests takes a node away.
CLAIMS = tuple(
    f"tests/e2e/nightly/test_{name}.py" for name in ("claim_bursts", "claim_writes", "claims", "claim_nodes")
)
# By part: its lanes, each with its own cluster.
LANES = {
    "older": (
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
    ),
    "deployments": (Lane("deployments", 2, ("tests/e2e/nightly/test_deployments.py",)),),
    "autoscaling": (Lane("autoscaling", 2, ("tests/e2e/nightly/test_autoscaling.py",)),),
    "kueue": (Lane("kueue", 2, ("tests/e2e/nightly/test_kueue.py",), components=("jobs",)),),
    "claims": (Lane("claims", 2, CLAIMS, components=("dra",)),),
    "kinds": (Lane("kinds", 1, ("tests/e2e/nightly/test_kinds.py",), components=("jobs",), settings=QUICK),),
}


@dataclass(frozen=True)
class Ended:
    """The end of a part: a text without newlines, and True if all of its tests passed."""

    text: str
    passed: bool


def random_tests() -> Ended:
    """The tests of make test, with a new seed and ten times as many random states or events (no root, no Go)."""
    seed = str(random.randrange(1 << 32))
    print(f"VGPU_TEST_SEED={seed} VGPU_TEST_TIMES={TIMES}", flush=True)
    command = [*PYTEST, "-n3", "--dist=worksteal", "--timeout=0"]
    return tested(command, {"VGPU_TEST_SEED": seed, "VGPU_TEST_TIMES": str(TIMES)})


def coverage() -> Ended:
    """The share of the product's lines that tests run: make coverage (no root, no Go)."""
    return tested(["make", "--no-print-directory", "coverage"], {})


def transactions() -> Ended:
    """Random transactions on the ledger, of more seeds than make test has (no root, no Go)."""
    seeds = [sys.executable, "-m", "tests.core.test_transactions", str(EVENTS), *map(str, SEEDS)]
    passed = subprocess.run(seeds, cwd=PROJECT, check=False).returncode == 0
    return Ended(f"{len(SEEDS)} seeds {'passed' if passed else 'failed'}", passed)


def older() -> Ended:
    """The contract suite, touches and Jobs on Kubernetes 1.34 and 1.35, where pods name their scheduler themselves."""
    ended = []
    for release in OLDER_RELEASES:
        with kubernetes(release):
            ended.append(lanes(LANES["older"], older_overlay))
    return Ended(", ".join(each.text for each in ended), all(each.passed for each in ended))


def deployments() -> Ended:
    """Rolling updates on full cards and a drained node: docs/rolling-updates.md and docs/node-drain.md."""
    return lanes(LANES["deployments"])


def autoscaling() -> Ended:
    """A HorizontalPodAutoscaler by the use of slices, on prometheus-adapter and Prometheus: docs/autoscaling.md."""
    programs.prometheus_adapter()
    return lanes(LANES["autoscaling"])


def tools() -> Ended:
    """Tests our files with Pod Security, Prometheus' operator, and krew where it is on the PATH."""
    return tested([*PYTEST, "-n0", "tests/hack/nightly"], {})


def kueue_queues() -> Ended:
    """Jobs in the queues of Kueue's real controller, as docs/quota.md has them."""
    return lanes(LANES["kueue"], more=[controllers.KUEUE.image()])


def kinds() -> Ended:
    """JobSets, PyTorchJobs and MPIJobs of their real controllers in a queue: docs/jobs.md."""
    return lanes(LANES["kinds"], more=[each.image() for each in controllers.KINDS])


def claims() -> Ended:
    """ResourceClaims: bursts, kills at each write, 2,000 random pods while programs and nodes die, a lost node."""
    return lanes(LANES["claims"])


def hip_releases() -> Ended:
    """HIP 5.2.3, 5.7.1, 6.4.3 and 7.2.4 in slices of simulated cards: suites, and a table (no root, no Go)."""
    texts, passed = userlands.run()
    return Ended(", ".join(texts), passed)


def pairs_of_benches() -> Ended:
    """Placing, refusing, rounds and the library against the last release, in pairs, with a bound (no root, no Go)."""
    return Ended(*pairs.run(pairs.default_base()))


# By name of a part, the function that runs it; the function's docstring is the help text.
PARTS: dict[str, Callable[[], Ended]] = {
    "random": random_tests,
    "coverage": coverage,
    "transactions": transactions,
    "older": older,
    "deployments": deployments,
    "autoscaling": autoscaling,
    "kueue": kueue_queues,
    "claims": claims,
    "kinds": kinds,
    "tools": tools,
    "userlands": hip_releases,
    "pairs": pairs_of_benches,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the chosen parts; returns 0 if all of their tests passed."""
    helps = "\n".join(f"  {name:<14}{part.__doc__}" for name, part in PARTS.items())
    parser = argparse.ArgumentParser(
        prog="hack/nightly",
        description=f"{__doc__}\nparts:\n{helps}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help="run this part alone (default: all parts)")
    chosen = parser.parse_args(argv).parts
    if unknown := sorted(set(chosen) - set(PARTS)):
        parser.error(f"there is no part {', '.join(unknown)}; there are: {', '.join(PARTS)}")
    os.environ |= {"VGPU_E2E": "true", "VGPU_E2E_REUSES": str(REUSES), WANTED: "true"}
    begin = time.monotonic()
    try:
        ended = {name: part() for name, part in PARTS.items() if name in chosen or not chosen}
    except programs.MissingError as error:
        print(error, file=sys.stderr)
        return 1
    texts = "; ".join(f"{name}: {end.text}" for name, end in ended.items())
    print(f"nightly: {texts}; {time.monotonic() - begin:.0f} s")
    return 0 if all(end.passed for end in ended.values()) else 1


def tested(command: Sequence[str], variables: Mapping[str, str]) -> Ended:
    """Run tests with these environment variables besides, and print their output."""
    done = subprocess.run(
        command, cwd=PROJECT, env=os.environ | variables, stdout=subprocess.PIPE, text=True, check=False
    )
    print(done.stdout, flush=True)
    return Ended(summary(LaneResult(done.returncode, done.stdout)), done.returncode == 0)


@contextmanager
def kubernetes(release: str) -> Iterator[None]:
    """Use the programs, images and tests of this older Kubernetes until the context ends."""
    os.environ[programs.RELEASE] = release
    try:
        yield
    finally:
        del os.environ[programs.RELEASE]


def lanes(
    chosen: Sequence[Lane],
    overlay_of: Callable[[Layout], Path] | None = None,
    more: Sequence[Path] = (),
) -> Ended:
    """Run these lanes (tests that share a cluster), each on its own cluster; returns the results as one text.

    `overlay_of` returns the overlay of the product; without it the product is installed as in `make e2e`. `more` are
    archives of further images. Raises MissingError.
    """
    found = programs.ensure()
    archives = [*images.build_all(), *more]
    results = list[LaneResult]()
    for lane in chosen:
        cluster = Cluster(Layout(layout.here().root / lane.name), found)
        results.append(run(lane, cluster, archives, overlay_of(cluster.layout) if overlay_of else None))
    texts = (f"{lane.name} {summary(result)}" for lane, result in zip(chosen, results, strict=True))
    text = f"{', '.join(texts)} on Kubernetes {programs.version('k8s.io/kubernetes')}"
    return Ended(text, not any(result.status for result in results))


def older_overlay(where: Layout) -> Path:
    """Write the overlay for the older Kubernetes, with simulated cards and its kube-scheduler; returns the folder."""
    scheduler = {"name": "registry.k8s.io/kube-scheduler", "newTag": programs.version("k8s.io/kubernetes")}
    return overlay(where, OLDER, ["simulated-cards"], images=[scheduler])


def summary(result: LaneResult) -> str:
    """The result of pytest in one line, such as `5 passed, 1 skipped`."""
    ends = re.findall(r"^=+ (.*) in [0-9.]+s.*=+$", result.output, re.MULTILINE)
    return str(ends[-1]) if ends else "did not run"


if __name__ == "__main__":
    sys.exit(main())
