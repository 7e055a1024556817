"""WorkloadTables are made in a process of its own; what fails there fails nothing else."""

import subprocess
import sys

import pytest

from device_plugin.allocator.refit import FitError
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.placement.card_columns import CardKind
from device_plugin.core.placement.policies import WorkloadTables
from device_plugin.core.placement.workload import Weighted
from device_plugin.core.requests import Request, Shape
from device_plugin.wiring import fitting
from hack.testbed.cluster import PROJECT
from tests.builders.cards import FAMILY

KIND = CardKind(FAMILY, "K100", 16368, 16, 60, 4)
SOME = [Weighted(Shape(Request(FAMILY, mem=mem)), 1.0) for mem in (1, 4, 8)]
MANY = [Weighted(Shape(Request(FAMILY, mem=1 + n % 16, cores=1 + n // 16)), 1.0) for n in range(900)]


def test_an_ask_that_no_table_can_be_made_of_is_an_error_of_fitting() -> None:
    strange = Shape(Request(FAMILY, mem=1), host=HostAmounts(cpu_milli=2**80))
    with pytest.raises(FitError, match="OverflowError"):
        fitting.tables([KIND], [1], [Weighted(strange, 1.0)])


def test_what_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "MOST_SECONDS", 1)
    with pytest.raises(FitError, match="took too long"):
        fitting.tables([KIND], [1], MANY)


def test_nobody_who_ends_waits_for_tables() -> None:
    with pytest.raises(FitError, match="the service ends"):
        fitting.tables([KIND], [1], MANY, ending=lambda: True)


def test_a_process_of_its_own_makes_the_same_tables() -> None:
    """Though the program that asks has a main script which must not run twice, as the one in our image."""
    script = (
        "from tests.wiring.test_fitting import KIND, SOME\n"
        "from device_plugin.wiring import fitting\n"
        "print('main runs')\n"
        "print(fitting.tables([KIND], [1], SOME).fill.worth.tobytes().hex())\n"
    )
    done = subprocess.run(
        [sys.executable, "-"], input=script, capture_output=True, text=True, check=True, cwd=PROJECT
    )
    expected = WorkloadTables([KIND], [1], SOME).fill.worth.tobytes().hex()
    assert done.stdout.splitlines() == ["main runs", expected]
