"""Tables are made in a process of its own; what fails there fails nothing else."""

import pytest

from device_plugin.cluster.ports import FitError
from device_plugin.core.hosts import Room
from device_plugin.core.placement.ask import Ask
from device_plugin.core.placement.columns import Kind
from device_plugin.core.placement.target import Weighted
from device_plugin.core.requests import Request
from device_plugin.wiring import fitting
from tests.core.clusters import FAMILY

KIND = Kind(FAMILY, "K100", 16368, 16, 60, 4)


def test_an_ask_that_no_table_can_be_made_of_is_an_error_of_fitting() -> None:
    strange = Ask(Request(FAMILY, mem=1), host=Room(cpu_milli=2**80))
    with pytest.raises(FitError, match="OverflowError"):
        fitting.tables([KIND], [1], [Weighted(strange, 1.0)])


def test_what_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    asks = [Weighted(Ask(Request(FAMILY, mem=1 + n % 16, cores=1 + n // 16)), 1.0) for n in range(900)]
    monkeypatch.setattr(fitting, "MOST_SECONDS", 1)
    with pytest.raises(FitError, match="took too long"):
        fitting.tables([KIND], [1], asks)
