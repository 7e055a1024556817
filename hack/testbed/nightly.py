"""hack/nightly: what takes too long for make e2e, in parts, each of which can be run alone.

The last line says how each part went. Needs root and Go.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hack.testbed import images, kueue, layout, programs
from hack.testbed.cluster import PROJECT, Cluster
from hack.testbed.e2e import Installed, Lane, LaneResult, run
from hack.testbed.install import overlay
from hack.testbed.layout import Layout

# The variable by which tests/e2e/nightly knows that its tests are wanted.
WANTED = "VGPU_NIGHTLY"
RELEASE, OLDER = "1.34", "kubernetes-1.31"
# Seeds, and random events of each; after every event the ledger must equal a model and its rebuild.
SEEDS, EVENTS = range(20), 100_000
# Pods of test_reuse.py.
REUSES = 300
# By part: the tests that run on clusters of their own.
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
}


@dataclass(frozen=True)
class Ended:
    """The end of a part: a text without newlines, and True if all of its tests passed."""

    text: str
    passed: bool


def transactions() -> Ended:
    """Random transactions on the ledger, of more seeds than make test has."""
    seeds = [sys.executable, "-m", "tests.core.test_transactions", str(EVENTS), *map(str, SEEDS)]
    passed = subprocess.run(seeds, cwd=PROJECT, check=False).returncode == 0
    return Ended(f"{len(SEEDS)} seeds {'passed' if passed else 'failed'}", passed)


def older() -> Ended:
    """The contract suite, touches and Jobs on Kubernetes 1.34, where pods name their scheduler themselves."""
    with kubernetes(RELEASE):
        return lanes(LANES["older"], older_overlay)


def deployments() -> Ended:
    """Rolling updates on full cards and a drained node: docs/rolling-updates.md and docs/node-drain.md."""
    return lanes(LANES["deployments"])


def autoscaling() -> Ended:
    """A HorizontalPodAutoscaler by the use of slices, on prometheus-adapter and Prometheus: docs/autoscaling.md."""
    programs.prometheus_adapter()
    return lanes(LANES["autoscaling"])


def tools() -> Ended:
    """Tests our files with Pod Security, Prometheus' operator, and krew where it is on the PATH."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-n0",
        "--no-cov",
        "tests/hack/nightly",
    ]
    done = subprocess.run(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout, flush=True)
    return Ended(summary(LaneResult(done.returncode, done.stdout)), done.returncode == 0)


def kueue_queues() -> Ended:
    """Jobs in the queues of Kueue's real controller, as docs/quota.md has them."""
    return lanes(LANES["kueue"], more=[kueue.image()])


# Each part's name, and what runs it; its docstring is its help.
PARTS: dict[str, Callable[[], Ended]] = {
    "transactions": transactions,
    "older": older,
    "deployments": deployments,
    "autoscaling": autoscaling,
    "kueue": kueue_queues,
    "tools": tools,
}


def main(argv: Sequence[str] | None = None) -> int:
    """0 if all tests of the chosen parts passed."""
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


@contextmanager
def kubernetes(release: str) -> Iterator[None]:
    """Within, programs, images and tests are those of this older Kubernetes."""
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
    """Run these lanes one after another, each on a cluster of its own with the product as `overlay_of` has it.

    Without one the product is installed as in `make e2e`. `more` are archives of images that only these clusters have.
    Raises MissingError.
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
    """The overlay for this release, with simulated cards and its scheduler."""
    scheduler = {"name": "registry.k8s.io/kube-scheduler", "newTag": programs.version("k8s.io/kubernetes")}
    return overlay(where, OLDER, ["simulated-cards"], images=[scheduler])


def summary(result: LaneResult) -> str:
    """The result of pytest in a line: `5 passed, 1 skipped`."""
    ends = re.findall(r"^=+ (.*) in [0-9.]+s.*=+$", result.output, re.MULTILINE)
    return str(ends[-1]) if ends else "did not run"


if __name__ == "__main__":
    sys.exit(main())
