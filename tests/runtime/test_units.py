"""HIP's number of units, for programs that are started without the variable that the container's runtime sets."""

import os
import subprocess
import sys

import pytest

from tests.runtime.conftest import Slice, card
from vgpu_runtime.rocm import UNITS_VARIABLE, environment


def started(container: Slice, *command: str, **variables: str) -> list[str]:
    """What a program prints that gets these variables, and else only those that make it one of the slice's."""
    needed = ("LD_PRELOAD", "VGPU_TEST_FOLDER", "ASAN_OPTIONS")
    own = {name: container.environment()[name] for name in needed} | variables
    done = subprocess.run(command, env=own, text=True, capture_output=True, check=True)
    assert done.stderr == ""
    return done.stdout.splitlines()


def told(container: Slice, **variables: str) -> list[str]:
    """The variable as `env` shows it."""
    return [line for line in started(container, "env", **variables) if line.startswith(UNITS_VARIABLE)]


@pytest.mark.parametrize(("units", "paired"), [(1000, False), (60, False), (80, True), (37, False)])
def test_a_program_without_it_gets_what_the_agent_writes(container: Slice, units: int, paired: bool) -> None:
    for granted in {2, 4, 6, 8, units // 2 & ~1, units - 1 & ~1}:
        limit = card(
            compute_units=units, paired=paired, mask=((1 << granted) - 1) << (units - granted) // 2 * 2
        )
        container.configure(limit)
        (expected,) = environment([limit.family]).values()
        assert told(container) == [f"{UNITS_VARIABLE}={expected}"]
        assert int(expected, 16) == (1 << granted) - 1


@pytest.mark.parametrize("value", ["0x3", "", "nonsense"])
def test_a_value_that_is_there_stays(container: Slice, value: str) -> None:
    container.configure()
    assert told(container, **{UNITS_VARIABLE: value}) == [f"{UNITS_VARIABLE}={value}"]


def test_whole_cards_need_none(container: Slice) -> None:
    whole = card(mask=(1 << 60) - 1)
    for cards in ((whole,), (whole, card(gpu_id=7, mask=(1 << 60) - 1)), (whole, card(gpu_id=7))):
        container.configure(*cards)
        assert told(container) == []
        assert environment([limit.family for limit in cards]) == {}


def test_where_the_maker_shows_only_the_units_of_a_slice_hip_counts_them_itself(container: Slice) -> None:
    cards = (card(vendor_masks=True), card(gpu_id=7, vendor_masks=True))
    container.configure(*cards)
    assert told(container) == []
    assert environment([limit.family for limit in cards]) == {UNITS_VARIABLE: ""}
    whole = card(mask=(1 << 60) - 1, vendor_masks=True)
    assert environment([whole.family]) == {}
    assert environment([whole.family, cards[1].family]) == {UNITS_VARIABLE: ""}


def test_without_a_config_there_is_none(container: Slice) -> None:
    assert told(container) == []


def test_of_a_config_that_cannot_be_read_nothing_is_said_before_the_card_is_used(container: Slice) -> None:
    container.configure()
    (container.folder / "vgpu.conf").write_text("mem=4\n")
    assert told(container) == []


def test_shells_and_interpreters_pass_it_on(container: Slice) -> None:
    """bash has a setenv of its own, which must not be called before main."""
    container.configure()
    script = f"import os; print(os.environ['{UNITS_VARIABLE}'])"
    for command in (
        ["bash", "-c", f"echo ${UNITS_VARIABLE}; env -i env >/dev/null"],
        ["sh", "-c", f"echo ${UNITS_VARIABLE}"],
        [sys.executable, "-c", script],
        [sys.executable, "-c", f"import os, sys; os.execve(sys.executable, ['python', '-c', {script!r}], "
         "{name: os.environ[name] for name in ('LD_PRELOAD', 'VGPU_TEST_FOLDER', 'ASAN_OPTIONS')})"],
    ):  # fmt: skip
        assert started(container, *command, PATH=os.environ["PATH"]) == ["0x7fff"]
