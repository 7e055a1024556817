"""Runs a randomised test of `make test` for longer; TESTS lists them."""

import argparse
import os
import random
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parents[2]


class LongTest(NamedTuple):
    """A file of tests with its description, its options (numbers of rounds), and its environment variables' prefix."""

    about: str
    test: str
    options: Mapping[str, int]
    prefix: str


TESTS = {
    "forecasts": LongTest(
        "Ask `vgpu fit` and `vgpu why` about random pods on random clusters of 1 to 6 nodes, and then the allocator:"
        " both must say whether it places the pod, on which node and cards, and fit with which core groups.",
        "tests/cli/test_forecasts.py", {"--pods": 1000}, "FORECASTS",
    ),
    "hygon-slices": LongTest(
        "Start, end, kill and restart containers with slices of Hygon's cards of 80 and 120 units at random, each with"
        " a real process on the simulated driver, and now and then the agent: no program may lose its card, no two live"
        " slices of a card may have one pipe, and each record of the driver must be a slice's.",
        "tests/node/test_hygon_slices.py", {"--starts": 100_000}, "HYGON_SLICES",
    ),
    "last-slices": LongTest(
        "Send 64 /filter calls at once for the last slices of a few cards, in rounds: no slice may be reserved twice.",
        "tests/allocator/test_last_slices.py", {"--rounds": 10_000}, "LAST_SLICES",
    ),
    "packings": LongTest(
        "Pack each kind of card at random, and let pods that ask for whole cards, memory, core groups, percent and"
        " several slices come and end: no two slices may share a compute unit, and each mask must obey the rules of"
        " its card.",
        "tests/core/placement/test_packings.py", {"--packings": 100_000}, "PACKINGS",
    ),
    "region-torture": LongTest(
        "Kill processes that allocate card memory through the library, by the thousand, and let 32 race: nothing may"
        " leak or exceed. The kills are run on the library as shipped and on one built with sanitizers. A line that"
        " begins with `kills` or `admissions` sums up each.",
        "tests/runtime/test_torture.py", {"--kills": 3000, "--admissions": 1_000_000}, "TORTURE",
    ),
    "rounds": LongTest(
        "Plan rounds of the job engine over random states, on cards alone and on nodes: no job is stopped or made"
        " narrower for an equal without its consent, no more cards are idled than used anew, each job that is due has"
        " a reservation or a reason, and the plans come to rest after two rounds, but for jobs that the second one"
        " stops and that start again on what is left over.",
        "tests/core/jobs/test_random_rounds.py", {"--states": 100_000}, "ROUNDS",
    ),
}  # fmt: skip


def main(name: str, *words: str) -> int:
    """Run the tests of the script `name`, with its arguments; returns the exit status."""
    long = TESTS[name]
    parser = argparse.ArgumentParser(prog=f"hack/{name}", description=long.about)
    for flag, default in long.options.items():
        parser.add_argument(flag, type=int, default=default, metavar="N")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    given = vars(parser.parse_args(words))
    options = [flag.removeprefix("--") for flag in long.options]
    for option in options:
        if given[option] < 1:
            parser.error(f"write --{option} of at least 1")
    print(
        ", ".join([*(f"{given[option]} {option}" for option in options), f"seed {given['seed']}"]), flush=True
    )
    variables = {f"{long.prefix}_{option.upper()}": str(value) for option, value in given.items()}
    command = [sys.executable, "-m", "pytest", "-q", "--timeout=0", "-s", long.test]
    return subprocess.run(command, cwd=REPOSITORY, env=os.environ | variables, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
