"""Send 64 /filter calls at once for the last slices of a few cards, in rounds: no slice may be reserved twice.

`hack/last-slices [--rounds N] [--seed S]` runs the test of that name for longer.
"""

import argparse
import os
import random
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="hack/last-slices", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    environment = os.environ | {
        "LAST_SLICES_ROUNDS": str(options.rounds),
        "LAST_SLICES_SEED": str(options.seed),
    }
    test = REPOSITORY / "tests/cluster/place/test_last_slices.py"
    command = [sys.executable, "-m", "pytest", "-q", "--timeout=0", "-s", str(test)]
    return subprocess.run(command, cwd=REPOSITORY, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
