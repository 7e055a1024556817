"""Releases of HIP in slices: the suites of tests/runtime and a table, for `hack/nightly userlands`.

Each release is unpacked from Debian's packages (vgpu_runtime/sim/userlands.py) and runs over the simulated driver. A
row of the table is a card, in slices of five sizes; in each a program runs alone, and together with a second one. A
release that Debian no longer has, or that this machine's apt does not reach, is named with the reason and does not
fail.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from tests.runtime import slices
from tests.runtime.slices import LIMIT_MIB, SimSlice
from vgpu_runtime import region
from vgpu_runtime.paths import BUILD, SOURCES
from vgpu_runtime.sim import hip, userlands
from vgpu_runtime.sim.cards import SimCard
from vgpu_runtime.sim.userlands import USERLANDS, Root

SUITES = (
    "tests/runtime/test_hip.py",
    "tests/runtime/test_save_area.py",
    "tests/runtime/test_userlands.py::test_hip_with_the_library_as_shipped",
)
FIRST_MIB, REFUSED_MIB, GRANTED_MIB = 1500, 600, 500
CHECKS = ("units", "masks", "memory", "refusal", "second process")
# Of HIP's figure of free memory, which the library does not make: HIP 5.2.3 counts the allocations of its own process.
FOLLOWS = "free memory follows"
SUCCESS, NO_MEMORY = "hipSuccess", "hipErrorOutOfMemory"


def run() -> tuple[list[str], bool]:
    """A text of each release, and True if all that were tried passed. Prints the table as Markdown."""
    subprocess.run(["make", "--no-print-directory", "-C", SOURCES], check=True)
    texts, passed, rows = list[str](), True, list[str]()
    for version in (hip.VERSION, *USERLANDS):
        try:
            found = _found(version)
        except hip.HipUnavailableError as error:
            texts.append(f"HIP {version} not tried ({error})")
            # In CI nothing may be missing but what Debian may have moved on from.
            passed &= os.environ.get("CI") != "true" or _moving(version)
            continue
        summary, good = _suites(version)
        shapes = slices.shapes(version)
        wrong = 0
        for name, card in shapes.items():
            counts = _five_sizes(card, found)
            wrong += sum(len(slices.sizes(card)) - counts[check] for check in CHECKS)
            rows.append(_row(version, name, card, counts))
        texts.append(f"HIP {version} {summary}, {len(shapes)} cards, {wrong or 'none'} wrong")
        passed &= good and not wrong
    print(f"Tried on {time.strftime('%Y-%m-%d', time.gmtime())}.\n")
    heads = ("HIP", "card", "units of the slices", *CHECKS, FOLLOWS)
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    print("\n".join(rows), flush=True)
    return texts, passed


def _moving(version: str) -> bool:
    return version in USERLANDS and USERLANDS[version].moving


def _found(version: str) -> Path | Root:
    cache = hip.default_cache()
    return hip.ensure(cache) if version == hip.VERSION else userlands.ensure(cache, USERLANDS[version])


def _suites(version: str) -> tuple[str, bool]:
    """The last line of the suites on this release, and True if they passed."""
    options = ("-p", "no:cacheprovider", "-n2", "--no-cov", "-q")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *SUITES],
        cwd=slices.REPOSITORY, env=os.environ | {"VGPU_HIP": version}, stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    print(done.stdout, flush=True)
    ends = re.findall(r"^(\d+ .*) in [0-9.]+s", done.stdout, re.MULTILINE)
    return str(ends[-1]) if ends else "did not run", done.returncode == 0


def _five_sizes(card: SimCard, found: Path | Root) -> Mapping[str, int]:
    """The number of the five slice sizes in which each check passed, by the check's name."""
    counts = dict.fromkeys((*CHECKS, FOLLOWS), 0)
    for groups in slices.sizes(card):
        with tempfile.TemporaryDirectory() as folder:
            held = _held(slices.make(Path(folder), BUILD, found, card, groups))
        counts = {check: count + held[check] for check, count in counts.items()}
    return counts


def _held(slice_: SimSlice) -> Mapping[str, bool]:
    """True for each check that passes in the slice, by the check's name."""
    seen = slice_.probe("info")
    queue = slice_.probe("queue").get("error")
    masks = list(slice_.queue_masks().values())
    with slice_.holding(FIRST_MIB):
        beside = slice_.probe("info")
        refused = slice_.probe("alloc", str(REFUSED_MIB)).get("error")
        by_library = region.read(slice_.folder / "usage").denied[0] > 0
        granted = slice_.probe("alloc", str(GRANTED_MIB)).get("error")
    return {
        "units": seen.get("units") == slice_.hip_units,
        "masks": queue == SUCCESS and bool(masks) and all(set(mask) == {slice_.grant} for mask in masks),
        "memory": seen.get("total_mib") == LIMIT_MIB,
        "refusal": refused == NO_MEMORY and by_library,
        "second process": granted == SUCCESS,
        FOLLOWS: beside.get("free_mib", LIMIT_MIB) <= LIMIT_MIB - FIRST_MIB,
    }


def _row(version: str, name: str, card: SimCard, counts: Mapping[str, int]) -> str:
    sizes = slices.sizes(card)
    units = ", ".join(str(groups * slices.group_units(card)) for groups in sizes)
    cells = (f"{count} of {len(sizes)}" for count in counts.values())
    return f"| {version} | `{name}` | {units} of {card.compute_units} | {' | '.join(cells)} |"
