"""Measure this commit and an earlier one in turns, on the same machine; prints which figures have become dearer.

    hack/pairs --base v1.2.0

A figure is dearer if the median of its ratios is above 1.05 and at least four of five pairs agree. Then the commit that
made it dearer is searched for, by pairs of the base and a commit half way. Without --base the base is the newest
release, or the newest commit that is a day old if there is no release. Changes that are not committed are not measured.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from hack.releases.notes import last_tag

PROJECT = Path(__file__).resolve().parents[2]
BOUND, AGREE = 1.05, 0.8
PAIRS = 5
# The parts of the product whose commits can make it dearer.
PRODUCT = ("device_plugin", "vgpu_runtime")

Values = Mapping[str, float]


@dataclass(frozen=True)
class Bench:
    """A command of a checkout, and a function that reads figures from its output; each is better if it is smaller."""

    command: Sequence[str]
    read: Callable[[str], Values]


def _extender(output: str) -> Values:
    found = json.loads(output)
    return {
        "placing: time a pod": 1 / found["pods_per_s"],
        "placing: CPU a pod": found["cpu_ms_per_pod"],
        "placing: p99": found["filter_p99_ms"],
        "rebuild": found["rebuild_s"],
        "RSS": found["rss_mib"],
    }


def _refusals(output: str) -> Values:
    found: Mapping[str, Mapping[str, Any]] = json.loads(output)
    refused = [kind for name, kind in found.items() if name.startswith("refusal: ")]
    return {
        "refusing, the first time": sum(kind["all_p50_ms"] for kind in refused),
        "refusing again": sum(kind["again_p50_ms"] or 0.0 for kind in refused),
    }


def _rounds(output: str) -> Values:
    found = json.loads(output)
    return {"a round of the engine": found["busy_s"], "a round of new jobs": found["first_s"]}


def _fence(output: str) -> Values:
    """The first line of a call has its time without the library, and what the library adds, in ns."""
    (found,) = re.findall(r"^allocation, p50 +([0-9.]+) +(-?[0-9.]+)", output, re.MULTILINE)
    return {"an admission of the library": sum(map(float, found))}


_BENCH = (sys.executable, "-m", "device_plugin", "bench")


def _filling(nodes: str) -> list[str]:
    return [*_BENCH, "extender", "--nodes", nodes, "--fill", "0.5", "--seconds", "8", "--json"]


BENCHES = {
    "extender": Bench(_filling("1213"), _extender),
    "extender-5000": Bench(_filling("5000"), _extender),
    "refusals": Bench([*_BENCH, "refusals", "--nodes", "1213", "--json"], _refusals),
    "rounds": Bench([*_BENCH, "jobs", "--large", "1000", "--nodes", "8", "--json"], _rounds),
    "fence": Bench(["hack/fence-cost", "--pairs", "5"], _fence),
}


@dataclass(frozen=True)
class Compared:
    """A figure's ratios, now to before, one of each pair."""

    bench: str
    name: str
    ratios: Sequence[float]

    @property
    def ratio(self) -> float:
        """The median of the ratios."""
        return median(self.ratios)

    @property
    def dearer(self) -> bool:
        """True if the median is above BOUND, and most pairs say so, which noise seldom does."""
        above = sum(ratio > 1 for ratio in self.ratios)
        return self.ratio > BOUND and above >= AGREE * len(self.ratios)

    def __str__(self) -> str:
        pairs = " ".join(f"{ratio:.2f}" for ratio in self.ratios)
        return f"{self.name:30}{self.ratio:6.2f}  {pairs}{'  DEARER' if self.dearer else ''}"


def compare(bench: str, before: Path, now: Path, pairs: int) -> Sequence[Compared]:
    """The figures of a bench in two checkouts, which take turns; every other pair begins with the other one."""
    found: list[tuple[Values, Values]] = []
    for number in range(pairs):
        if number % 2:
            after = _measured(bench, now)
            found.append((_measured(bench, before), after))
        else:
            found.append((_measured(bench, before), _measured(bench, now)))
    return [Compared(bench, name, [new[name] / old[name] for old, new in found]) for name in found[0][0]]


def culprit(candidates: Sequence[str], is_dearer: Callable[[str], bool]) -> str:
    """The first of these commits, oldest first, that is dearer than the base; the last one is known to be."""
    low, high = 0, len(candidates) - 1
    while low < high:
        middle = (low + high) // 2
        if is_dearer(candidates[middle]):
            high = middle
        else:
            low = middle + 1
    return candidates[low]


def run(base: str, pairs: int = PAIRS, names: Sequence[str] = ()) -> tuple[str, bool]:
    """Compare HEAD with `base` and print each figure; returns a text without newlines, and true if none is dearer."""
    with ExitStack() as stack:
        before, now = (stack.enter_context(_checkout(commit)) for commit in (base, "HEAD"))
        figures: list[Compared] = []
        for name in names or BENCHES:
            for each in compare(name, before, now, pairs):
                print(each, flush=True)
                figures.append(each)
        dearer = [each for each in figures if each.dearer]
        blamed = [
            f"{each.name} {each.ratio:.2f} since {_search(base, before, each, pairs)}" for each in dearer
        ]
    since = _git("rev-parse", "--short", base)
    return f"{len(figures)} figures against {since}: {', '.join(blamed) or 'none is dearer'}", not dearer


def _search(base: str, before: Path, figure: Compared, pairs: int) -> str:
    """The first commit after `base` in which the figure is dearer, with its subject."""

    def is_dearer(commit: str) -> bool:
        with _checkout(commit) as there:
            found = compare(figure.bench, before, there, pairs)
        return next(each for each in found if each.name == figure.name).dearer

    commits = _git("rev-list", "--reverse", "--first-parent", f"{base}..HEAD", "--", *PRODUCT).split()
    if not commits:
        return "no commit of the product"
    return _git("show", "--no-patch", "--format=%h %s", culprit(commits, is_dearer))


def _measured(bench: str, checkout: Path) -> Values:
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    done = subprocess.run(
        BENCHES[bench].command, cwd=checkout, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return BENCHES[bench].read(done.stdout)


@contextmanager
def _checkout(commit: str) -> Iterator[Path]:
    """A checkout of the commit with its compiled parts, and with this one's virtual environment."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkout"
        _git("worktree", "add", "--quiet", "--detach", str(path), commit)
        try:
            (path / ".venv").symlink_to(PROJECT / ".venv")
            subprocess.run(
                ["make", "--silent", "-C", path / "vgpu_runtime"], stdout=subprocess.DEVNULL, check=True
            )
            yield path
        finally:
            _git("worktree", "remove", "--force", str(path))


def _git(*words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=PROJECT, stdout=subprocess.PIPE, text=True, check=True
    ).stdout.strip()


def default_base() -> str:
    """The newest release, or the newest commit that is a day old, or the first commit."""
    return (
        last_tag(PROJECT)
        or _git("rev-list", "-1", "--before=1 day ago", "HEAD")
        or _git("rev-list", "--max-parents=0", "HEAD")
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="hack/pairs", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base", metavar="COMMIT", default="", help="the earlier commit")
    parser.add_argument("--pairs", type=int, default=PAIRS, metavar="N", help=f"default: {PAIRS}")
    parser.add_argument(
        "benches", nargs="*", metavar="BENCH", help=f"any of {', '.join(BENCHES)} (default: all)"
    )
    options = parser.parse_args()
    if options.pairs < 1:
        parser.error("write --pairs of at least 1")
    if unknown := sorted(set(options.benches) - set(BENCHES)):
        parser.error(f"there is no bench {', '.join(unknown)}; there are: {', '.join(BENCHES)}")
    text, passed = run(options.base or default_base(), options.pairs, options.benches)
    print(text)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
