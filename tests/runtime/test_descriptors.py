"""Memory whose last name is a descriptor: what is seen of its end, whoever closes it and whenever."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deadline import until
from tests.runtime import slices
from tests.runtime.conftest import HERE, STRICT, own
from tests.runtime.slices import LIMIT_MIB, SHAPES, SimSlice
from vgpu_runtime import region
from vgpu_runtime.paths import SOURCES
from vgpu_runtime.sim import Kernel

NAMELESS = "kfd.use(GPU); a = kfd.alloc(GPU, 1500 * MIB); dmabuf = kfd.export(a); kfd.free(a)\n"
LEFT = "print(kfd.available(GPU) // MIB)\n"


@pytest.fixture
def machine(native: Path, tmp_path: Path) -> SimSlice:
    """A slice with between.c below the library."""
    source, between = HERE / "between.c", tmp_path / "between.so"
    subprocess.run(["cc", *STRICT, "-shared", "-fPIC", source, "-o", between, "-ldl"], check=True)
    machine = slices.make(tmp_path, native, None, SHAPES["hygon-60cu-16gib"], 15, Kernel.UNCHECKED)
    fence, driver = machine.environment["LD_PRELOAD"].split(":")
    return dataclasses.replace(
        machine, environment=machine.environment | {"LD_PRELOAD": f"{fence}:{between}:{driver}"}
    )


def output(machine: SimSlice, script: str) -> list[str]:
    done = machine.python(script, VGPU_QUIET="1")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_a_signal_handler_that_closes_does_not_wait_for_the_thread_that_it_interrupts(
    machine: SimSlice,
) -> None:
    """A descriptor that the child closed is found at the next look at all descriptors."""
    script = f"{NAMELESS}kfd.libc.close_while_locked(dmabuf); kfd.alloc(GPU, 100 * MIB)\n{LEFT}"
    assert output(machine, script) == [str(LIMIT_MIB - 100)]


def test_what_a_child_of_vfork_closes_stays_its_parents(machine: SimSlice) -> None:
    script = f"{NAMELESS}kfd.libc.close_in_child(dmabuf)\n{LEFT}os.close(dmabuf)\n{LEFT}"
    assert output(machine, script) == [str(LIMIT_MIB - 1500), str(LIMIT_MIB)]


def test_a_file_with_the_inode_number_of_a_dmabuf_holds_no_memory(machine: SimSlice) -> None:
    script = f"{NAMELESS}kfd.libc.make_twin(os.pipe()[0], dmabuf); os.close(dmabuf)\n{LEFT}"
    assert output(machine, script) == [str(LIMIT_MIB)]


def test_few_descriptors_are_looked_at_for_an_admission(machine: SimSlice) -> None:
    script = (
        f"{NAMELESS}mine = [os.dup(0) for _ in range(200)]; calls = kfd.libc.stat_calls()\n"
        "kfd.alloc(GPU, MIB); print(kfd.libc.stat_calls() - calls < 10)\n"
        f"moved = os.dup(dmabuf); os.close(dmabuf)\n{LEFT}os.close(moved)\n{LEFT}"
    )
    assert output(machine, script) == ["True", str(LIMIT_MIB - 1501), str(LIMIT_MIB - 1)]


def test_a_child_that_is_forked_while_a_slot_is_claimed_does_not_hold_it(machine: SimSlice) -> None:
    script = (
        f"import os; from tests.runtime import kfd; kfd.use({machine.card.gpu_id}); kfd.libc.fork_while_mapping()\n"
        f"kfd.alloc({machine.card.gpu_id}, 4096); os._exit(0)"
    )
    environment = machine.environment | {"PYTHONPATH": str(slices.REPOSITORY)}
    command = [sys.executable, "-S", "-c", script]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE) as process:
        assert process.wait(timeout=60) == 0
        # The child gives the slot up by itself, and may run only after its parent has ended.
        until(lambda: region.read(machine.folder / "usage").live_slots == 0, "the child holds no slot")


def test_a_render_nodes_end_is_seen_though_the_library_has_lost_its_own(tmp_path: Path) -> None:
    """The program closes all descriptors by number; files.c opens the node anew by its path."""
    program, node = tmp_path / "files", tmp_path / "node"
    node.touch()
    include = f"-I{SOURCES / 'include'}"
    subprocess.run(
        ["cc", *STRICT, include, HERE / "files.c", *own("rocm/files.c"), "-o", program], check=True
    )
    done = subprocess.run([program, node], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("", 0)
