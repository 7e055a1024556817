"""Check on this machine that programs cannot exceed the limits of slices of its AMD or Hygon cards.

It needs Python 3.8, the card's driver, and a C compiler to build the library. It needs no cluster, and root only
where a row says so. It uses each card for seconds, with at most 2 GiB of its memory: run it on a card that is idle.

Each row of the table is pass, fail, or "not possible here" with the reason. Exit status: 0 if a card was checked and
nothing failed, 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hack.gpu_check import checks, dmem, hygon
from hack.gpu_check.cards import NODES, Card, cards
from hack.gpu_check.checks import Bench, kernel
from hack.gpu_check.running import FailedError, ImpossibleError
from hack.gpu_check.slices import make_slice, quarter
from hack.gpu_check.vdev import HYGON

CHECKS = {**checks.CHECKS, **dmem.CHECKS, **hygon.CHECKS}
LIBRARY = Path(__file__).resolve().parents[2] / "build/libvgpu-test.so"
PASS, FAIL, IMPOSSIBLE = "pass", "fail", "not possible here"


@dataclass(frozen=True)
class Row:
    """A line of the table. `card` is the PCI address of the checked card; empty for a line about the machine."""

    card: str
    check: str
    result: str
    detail: str


def row(card: str, name: str, check: Callable[[], str]) -> Row:
    """Run one check, and return its row."""
    try:
        return Row(card, name, PASS, check())
    except ImpossibleError as error:
        return Row(card, name, IMPOSSIBLE, str(error))
    except FailedError as error:
        return Row(card, name, FAIL, str(error))
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return Row(card, name, FAIL, f"{type(error).__name__}: {error}")


def check_card(card: Card, library: Path, names: list[str]) -> Iterator[Row]:
    """Run the named checks on one card, or all that its maker's cards have; yields their rows."""
    own = [name for name in CHECKS if name not in hygon.CHECKS or card.ids.startswith(HYGON)]
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
        one = make_slice(card, library, Path(folder) / "one", 0)
        other = make_slice(card, library, Path(folder) / "other", quarter(card))
        bench = Bench(card, one, other)
        for name in names or own:
            yield row(card.pci, name, partial(CHECKS[name], bench))


def missing(found: list[Card], library: Path) -> str:
    """The reason why no card can be checked; empty if one can. Builds the default library if it is missing."""
    if not found:
        return (
            f"no card of AMD or Hygon in {NODES}: is its driver loaded (lsmod | grep -E 'amdgpu|hycu|hydcu'), and"
            " does a container see the machine's /sys and /dev/kfd?"
        )
    if library != LIBRARY or library.exists():
        return "" if library.exists() else f"no {library}"
    command = ["make", "-C", str(LIBRARY.parent.parent / "vgpu_runtime"), str(LIBRARY)]
    try:
        built = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        return f"no make to build {LIBRARY}: {error}"
    return f"{' '.join(command)}: {built.stderr.strip()[-200:]}" if built.returncode else ""


def rows(library: Path, names: list[str]) -> Iterator[Row]:
    """Run the named checks on all cards; yields their rows, or one row with the reason if no card can be checked."""
    yield row("", "kernel, driver", kernel)
    found = cards()
    reason = missing(found, library)
    if reason:
        yield Row("", "all others", IMPOSSIBLE, reason)
        return
    for card in found:
        yield from check_card(card, library, names)


def main() -> int:
    """Print the table; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="hack/gpu-check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("check", nargs="*", metavar="CHECK", help=f"of: {'; '.join(CHECKS)} (default: all)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--library", type=Path, default=LIBRARY, help="default: %(default)s")
    options = parser.parse_args()
    wrong = [name for name in options.check if name not in CHECKS]
    if wrong:
        parser.error(f"no check {'; '.join(wrong)}; there are: {'; '.join(CHECKS)}")
    table = []
    for line in rows(options.library.resolve(), options.check):
        table.append(line)
        if not options.json:
            print(f"{line.card or '-':<14}{line.check:<25}{line.result:<19}{line.detail}", flush=True)
    results = [line.result for line in table if line.card]
    status = 0 if PASS in results and FAIL not in results else 1
    if options.json:
        print(json.dumps({"status": status, "rows": [vars(line) for line in table]}, indent=1))
    else:
        counts = ", ".join(f"{name} {results.count(name)}" for name in (PASS, FAIL, IMPOSSIBLE))
        print(counts if results else "no card was checked")
    return status


if __name__ == "__main__":
    sys.exit(main())
