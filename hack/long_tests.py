"""Runs a randomised test of `make test` for longer: the scripts last-slices and region-torture of hack/."""

import argparse
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parent.parent


class LongTest(NamedTuple):
    """A test, what it does, and its number of rounds: the option, the default, and the prefix of its variables."""

    about: str
    test: str
    option: str
    default: int
    prefix: str


TESTS = {
    "last-slices": LongTest(
        "Send 64 /filter calls at once for the last slices of a few cards, in rounds: no slice may be reserved twice.",
        "tests/cluster/place/test_last_slices.py", "--rounds", 10_000, "LAST_SLICES",
    ),
    "region-torture": LongTest(
        "Kill processes that allocate card memory through the library, by the thousand: nothing may leak or exceed."
        " It is run on the library as shipped and on one built with sanitizers; a line that begins with `kills` sums"
        " up each.",
        "tests/runtime/test_torture.py", "--kills", 3000, "TORTURE",
    ),
}  # fmt: skip


def main(name: str, *words: str) -> int:
    """Run the test of a script; `words` are the script's arguments."""
    long = TESTS[name]
    parser = argparse.ArgumentParser(prog=f"hack/{name}", description=long.about)
    parser.add_argument(long.option, dest="count", type=int, default=long.default, metavar="N")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args(words)
    if options.count < 1:
        parser.error(f"write {long.option} of at least 1")
    counted = long.option.removeprefix("--")
    print(f"{options.count} {counted}, seed {options.seed}", flush=True)
    variables = {
        f"{long.prefix}_{counted.upper()}": str(options.count),
        f"{long.prefix}_SEED": str(options.seed),
    }
    command = [sys.executable, "-m", "pytest", "-q", "--timeout=0", "-s", long.test]
    return subprocess.run(command, cwd=REPOSITORY, env=os.environ | variables, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
