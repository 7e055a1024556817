"""The garbage collector is off while a command reads, and as it was afterwards."""

import gc
from argparse import Namespace
from collections.abc import Iterator

import pytest

from device_plugin.cli import cards, fit, nodes, top, why
from device_plugin.cli.reading.garbage import uncollected
from device_plugin.core.errors import RequestError
from device_plugin.wiring.commands import main


@pytest.fixture(autouse=True)
def enabled() -> Iterator[None]:
    """A command that leaves the collector off spoils no other test."""
    assert gc.isenabled()
    yield
    gc.enable()


def state(args: Namespace) -> int:
    """A command that returns whether the collector is on, or fails."""
    if args.fails:
        raise RequestError("fails")
    return gc.isenabled()


def test_it_is_off_until_the_command_returns() -> None:
    assert not uncollected(state)(Namespace(fails=False))
    assert not uncollected(uncollected(state))(Namespace(fails=False, watch=False))
    assert gc.isenabled()


def test_a_command_that_fails_switches_it_on_again() -> None:
    with pytest.raises(RequestError):
        uncollected(state)(Namespace(fails=True))
    assert gc.isenabled()


def test_it_stays_on_in_a_command_that_watches() -> None:
    assert uncollected(state)(Namespace(fails=False, watch=True))


def test_one_that_was_off_stays_off() -> None:
    gc.disable()
    uncollected(state)(Namespace(fails=False))
    assert not gc.isenabled()


@pytest.mark.parametrize("command", [cards, fit, nodes, top, why])
def test_commands_that_list_a_cluster_run_without_it(command: object) -> None:
    assert hasattr(command.run, "__wrapped__")  # type: ignore[attr-defined]


def test_it_is_on_after_a_command_that_finds_no_cluster() -> None:
    assert main(["fit", "--mem", "4", "--kubeconfig", "/nowhere"]) == 2
    assert gc.isenabled()
