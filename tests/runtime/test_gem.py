"""The render node: memory that is made there is the slice's, and work for compute units does not pass.

What a request came to is told by the simulated driver, not by the library.
"""

import platform
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.runtime import slices
from tests.runtime.slices import LIMIT_MIB, SHAPES, SimSlice
from vgpu_runtime.sim import Kernel

CARD = SHAPES["hygon-60cu-16gib"]
ALL_GROUPS = slices.all_groups(CARD)
STEPS = 1500
REFUSED, FORBIDDEN = "12", "13"

HEAD = """
from tests.runtime import gem
from tests.runtime.gem import GTT, VRAM

def attempt(action, *arguments):
    try:
        return action(*arguments)
    except OSError as error:
        return str(error.errno)

def used():
    return int(open(BOOKS).read()) // MIB

kfd.use(GPU)
node = gem.node()
"""


@pytest.fixture
def machine(native: Path, tmp_path: Path) -> Callable[[int], SimSlice]:
    """Makes a slice with a number of core groups."""
    return lambda groups: slices.make(tmp_path, native, None, CARD, groups, Kernel.UNCHECKED)


def output(machine: SimSlice, script: str) -> list[str]:
    books = f"BOOKS = {str(machine.folder / 'sim/state/vram_used.0')!r}"
    done = machine.python(f"{books}\n{HEAD}{script}", VGPU_QUIET="1")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_memory_of_a_render_node_counts_with_kfds(machine: Callable[[int], SimSlice]) -> None:
    script = (
        "kfd.alloc(GPU, 1000 * MIB); a = gem.create(node, 1000 * MIB)\n"
        "print(attempt(gem.create, node, 49 * MIB), attempt(kfd.alloc, GPU, 49 * MIB), used())\n"
        "gem.close(node, a); kfd.alloc(GPU, 49 * MIB); print(used())"
    )
    assert output(machine(15), script) == [f"{REFUSED} {REFUSED} 2000", "1049"]


def test_memory_of_the_host_is_not_counted_and_does_not_move(machine: Callable[[int], SimSlice]) -> None:
    script = (
        f"a = gem.create(node, 2 * {LIMIT_MIB} * MIB, GTT); print(attempt(gem.place, node, a, VRAM), used())\n"
        "gem.place(node, a, GTT)\n"
        "b = gem.create(node, 5 * MIB); gem.place(node, b, VRAM); print(used())"
    )
    assert output(machine(15), script) == [f"{FORBIDDEN} 0", "5"]


def test_the_last_of_a_files_descriptors_gives_its_memory_back(machine: Callable[[int], SimSlice]) -> None:
    script = (
        "copy = os.dup(node); other = gem.node()\n"
        "gem.create(node, 1500 * MIB); gem.create(other, 500 * MIB)\n"
        "os.close(node); print(attempt(gem.create, other, 100 * MIB), used())\n"
        "os.close(copy); gem.create(other, 100 * MIB); print(used())"
    )
    assert output(machine(15), script) == [f"{REFUSED} 2000", "600"]


def test_a_descriptor_that_is_closed_unseen_is_noticed(machine: Callable[[int], SimSlice]) -> None:
    script = (
        "gem.create(node, 1500 * MIB); os.dup2(0, node)\n"
        "gem.create(gem.node(), 1500 * MIB); print(used(), kfd.available(GPU) // MIB)"
    )
    assert output(machine(15), script) == [f"1500 {LIMIT_MIB - 1500}"]


def test_a_childs_copy_keeps_what_its_parent_closes(machine: Callable[[int], SimSlice]) -> None:
    script = (
        "gem.create(node, 1500 * MIB); go, end = os.pipe()\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    os.close(end); os.read(go, 1); os._exit(0)\n"
        "os.close(go); os.close(node)\n"
        "print(attempt(gem.create, gem.node(), 1000 * MIB), used())\n"
        "os.close(end); os.waitpid(child, 0)\n"
        "gem.create(gem.node(), 1000 * MIB); print(used())"
    )
    assert output(machine(15), script) == [f"{REFUSED} 1500", "1000"]


def test_shared_memory_is_charged_once_until_its_last_name_goes(machine: Callable[[int], SimSlice]) -> None:
    script = (
        "a = kfd.alloc(GPU, 1500 * MIB); dmabuf = kfd.export(a)\n"
        "other = gem.node(); b = gem.take(node, dmabuf); c = gem.take(other, dmabuf); d = kfd.take(GPU, dmabuf)\n"
        "print(used(), gem.take(node, dmabuf) == b)\n"
        "for give in (lambda: kfd.free(a), lambda: gem.close(node, b), lambda: os.close(other), lambda: kfd.free(d)):\n"
        "    give(); print(attempt(kfd.alloc, GPU, 1000 * MIB), used())\n"
        "os.close(dmabuf); kfd.alloc(GPU, 1000 * MIB); print(used())"
    )
    assert output(machine(15), script) == ["1500 True", *[f"{REFUSED} 1500"] * 4, "1000"]


SHARED = "a = kfd.alloc(GPU, 1500 * MIB); dmabuf = kfd.export(a); kfd.free(a)\n"
LEFT = "print(kfd.available(GPU) // MIB)\n"


def test_a_dmabuf_is_charged_though_no_descriptor_is_left_to_look_for_it(
    machine: Callable[[int], SimSlice],
) -> None:
    script = (
        f"import resource; soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)\n{SHARED}"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard)); print(attempt(kfd.alloc, GPU, 1000 * MIB))\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))\n"
        f"{LEFT}os.close(dmabuf); {LEFT}"
    )
    assert output(machine(15), script) == [REFUSED, str(LIMIT_MIB - 1500), str(LIMIT_MIB)]


def test_a_dmabuf_is_charged_though_the_first_thread_has_ended(machine: Callable[[int], SimSlice]) -> None:
    """Then /proc/self/fd is empty: it shows the first thread's descriptors."""
    exit_ = {"x86_64": 60, "aarch64": 93}[platform.machine()]
    script = (
        f"import threading\n{SHARED}def rest():\n"
        "    path = f'/proc/{os.getpid()}/task/{os.getpid()}/stat'\n"
        "    while ') Z ' not in open(path).read(): pass\n"
        f"    {LEFT}    os.close(dmabuf); {LEFT}    os.sys.stdout.flush(); os._exit(0)\n"
        f"threading.Thread(target=rest).start(); kfd.libc.syscall({exit_}, 0)"
    )
    assert output(machine(15), script) == [str(LIMIT_MIB - 1500), str(LIMIT_MIB)]


def test_a_second_card_in_the_machine_is_not_charged(machine: Callable[[int], SimSlice]) -> None:
    """A node that is no card of the slice is none of the library's business: the device cgroup keeps it away."""
    slice_ = machine(15)
    conf = slice_.folder / "vgpu.conf"
    conf.write_text(conf.read_text().replace("render_minor = 128", "render_minor = 129"))
    assert output(slice_, f"gem.create(node, 2 * {LIMIT_MIB} * MIB); print(used())") == [str(2 * LIMIT_MIB)]


def test_what_is_told_of_memory_is_the_slices(machine: Callable[[int], SimSlice]) -> None:
    script = (
        "kfd.alloc(GPU, 48 * MIB)\n"
        "for query, words in ((0x10, 1), (0x17, 1), (0x14, 3), (0x19, 12), (0x19, 1)):\n"
        "    print(*(value // MIB for value in gem.info(node, query, words)))"
    )
    heap = f"{LIMIT_MIB} {LIMIT_MIB} 48 {LIMIT_MIB}"
    assert output(machine(15), script) == [
        "48",
        "48",
        f"{LIMIT_MIB} {LIMIT_MIB} 16368",
        f"{heap} {heap} 16368 16368 48 12276",
        f"{LIMIT_MIB}",
    ]


def test_work_for_compute_units_is_refused_in_a_part_of_a_card(machine: Callable[[int], SimSlice]) -> None:
    script = (
        "print(attempt(gem.submit, node, gem.GFX), attempt(gem.submit, node, gem.COMPUTE))\n"
        "gem.submit(node, gem.DMA)\n"
        'print(attempt(gem.call, node, 0x56, "op:32 id:32 ip:32 bell:32", 1, 0, gem.COMPUTE))'
    )
    slice_ = machine(15)
    assert slice_.python(HEAD + script).stdout.splitlines() == [f"{FORBIDDEN} {FORBIDDEN}", FORBIDDEN]
    assert [call["engine"] for call in slice_.calls("submit")] == ["2"]
    assert slice_.calls("user-queue") == []


def test_work_for_a_whole_cards_units_passes(machine: Callable[[int], SimSlice]) -> None:
    slice_ = machine(ALL_GROUPS)
    output(slice_, "gem.submit(node, gem.COMPUTE)")
    assert [call["engine"] for call in slice_.calls("submit")] == ["1"]


def test_a_refused_submission_is_said(machine: Callable[[int], SimSlice]) -> None:
    done = machine(15).python(f"{HEAD}attempt(gem.submit, node, gem.GFX); attempt(gem.submit, node, gem.GFX)")
    assert done.stderr.startswith("vgpu: work for the card is refused: only queues of /dev/kfd")
    assert done.stderr.count("\n") == 1


def test_a_config_that_cannot_be_read_closes_the_render_node(machine: Callable[[int], SimSlice]) -> None:
    slice_ = machine(15)
    (slice_.folder / "vgpu.conf").write_text("version = 99\n")
    books = f"BOOKS = {str(slice_.folder / 'sim/state/vram_used.0')!r}\n"
    script = "print(attempt(gem.create, node, MIB), attempt(gem.submit, node, gem.DMA), used())"
    assert slice_.python(books + HEAD + script).stdout.splitlines() == [f"{REFUSED} {REFUSED} 0"]


@pytest.mark.parametrize("letter", ["d", "K", "X"])
def test_the_letter_of_a_request_says_nothing(machine: Callable[[int], SimSlice], letter: str) -> None:
    script = (
        "import ctypes\n"
        'made = kfd.layout("size:64 align:64 domains:64 flags:64")\n'
        "def create(size):\n"
        f"    kfd.device = node; kfd.send(kfd.request(0x40, 32, ord({letter!r})), ctypes.byref(made(size, 0, VRAM)))\n"
        f"create(MIB); print(attempt(create, {LIMIT_MIB} * MIB), used())"
    )
    assert output(machine(15), script) == [f"{REFUSED} 1"]


def test_too_many_open_files_with_memory_are_refused(machine: Callable[[int], SimSlice]) -> None:
    script = (
        "nodes = [gem.node() for _ in range(70)]\n"
        "made = [attempt(gem.create, node, MIB) for node in nodes]\n"
        f"print(made.index({REFUSED!r}), used()); os.close(nodes[0]); gem.create(nodes[-1], MIB); print(used())"
    )
    assert output(machine(15), script) == ["64 64", "64"]


def test_the_charge_is_what_the_driver_holds_whatever_comes_in_whatever_order(
    machine: Callable[[int], SimSlice], sanitized: tuple[Path, tuple[Path, ...]], rng: random.Random
) -> None:
    slice_ = machine(15)
    library, runtimes = sanitized
    command = [sys.executable, "-S", "-m", "tests.runtime.interleave", str(rng.getrandbits(32)), str(STEPS)]
    command += [
        str(slice_.card.gpu_id),
        str(slice_.folder / "usage"),
        str(slice_.folder / "sim/state/vram_used.0"),
    ]
    done = slice_.run(
        *command,
        LD_PRELOAD=":".join(map(str, (*runtimes, library, slice_.build / "libsimkfd.so"))),
        ASAN_OPTIONS="detect_leaks=0",  # of the program
        PYTHONPATH=str(slices.REPOSITORY),
        VGPU_QUIET="1",
    )
    print(done.stderr)
    assert done.stdout.startswith(f"steps {STEPS}, ")
