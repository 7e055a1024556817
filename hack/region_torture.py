"""Kill processes that allocate card memory through the library, by the thousand: nothing may leak or exceed.

`hack/region-torture [--kills N] [--seed S]` runs the test of that name for longer, on the library as shipped and on one
built with sanitizers; a line that begins with `kills` sums up each.
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
        prog="hack/region-torture", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    print(f"{options.kills} kills, seed {options.seed}", flush=True)
    environment = os.environ | {"TORTURE_KILLS": str(options.kills), "TORTURE_SEED": str(options.seed)}
    test = REPOSITORY / "tests/runtime/test_torture.py"
    command = [sys.executable, "-m", "pytest", "-q", "--timeout=0", "-s", str(test)]
    return subprocess.run(command, cwd=REPOSITORY, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
