"""Requests of odd shapes: the kernel looks at the number and the descriptor only, and so does the library.

What a request came to is told by the simulated driver, not by the library.
"""

import errno
import subprocess
from pathlib import Path

import pytest

from tests.runtime import slices
from tests.runtime.conftest import HERE, MIB, STRICT, Slice
from tests.runtime.slices import LIMIT_MIB, SHAPES, SimSlice
from vgpu_runtime.paths import SOURCES
from vgpu_runtime.sim import Kernel

CARD = SHAPES["hygon-60cu-16gib"]
ALLOC, SET_MASK, AVAILABLE, CREATE_QUEUE = 0x16, 0x1A, 0x23, 0x02
ALLOC_BYTES, QUEUE_BYTES = 40, 88
FAULT, NOT_A_DEVICE = str(errno.EFAULT), str(errno.ENOTTY)

HEAD = """
import ctypes, mmap

def attempt(code, arguments):
    try:
        kfd.send(code, arguments)
    except OSError as error:
        return error.errno
    return 0

def memory(size):
    layout = kfd.layout("va:64 size:64 handle:64 offset:64 gpu_id:32 flags:32")
    return layout(0, size, 0, 0, GPU, kfd.VRAM)

libc = kfd.libc
libc.mmap.restype = ctypes.c_uint64
libc.mmap.argtypes = (ctypes.c_uint64, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)

def page(protection):
    return libc.mmap(0, 4096, protection, 0x22, -1, 0)

kfd.use(GPU)
"""


@pytest.fixture
def machine(native: Path, tmp_path: Path) -> SimSlice:
    """A slice of a quarter of a card, on a kernel that does not ask for save areas of queues."""
    return slices.make(tmp_path, native, None, CARD, 15, Kernel.UNCHECKED)


def output(machine: SimSlice, script: str) -> list[str]:
    done = machine.python(HEAD + script, VGPU_QUIET="1")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def driver_used(machine: SimSlice, script: str) -> int:
    """MiB that the program's allocations hold at the driver, told before it ends."""
    published = machine.folder / "sim/state/vram_used.0"
    return int(output(machine, f"{script}\nprint(int(open({str(published)!r}).read()))")[-1]) // MIB


@pytest.mark.parametrize("letter", ["K", "X", "\0"])
def test_the_limit_holds_whatever_letter_and_direction_a_request_has(machine: SimSlice, letter: str) -> None:
    code = f"kfd.request({ALLOC}, {ALLOC_BYTES}, {ord(letter)}, direction)"
    script = (
        "for direction in range(4):\n"
        f"    assert not attempt({code}, ctypes.byref(memory(100 * MIB)))\n"
        f"    assert attempt({code}, ctypes.byref(memory({LIMIT_MIB} * MIB))) == {errno.ENOMEM}"
    )
    assert driver_used(machine, script) == 400


@pytest.mark.parametrize("letter", ["K", "X"])
def test_queues_are_masked_whatever_letter_a_request_has(machine: SimSlice, letter: str) -> None:
    output(machine, queue(f"kfd.request({CREATE_QUEUE}, {QUEUE_BYTES}, {ord(letter)})"))
    assert list(machine.queue_masks().values()) == [[machine.grant]]


def test_a_queue_whose_number_the_program_does_not_ask_for_is_masked(machine: SimSlice) -> None:
    output(machine, queue(f"kfd.request({CREATE_QUEUE}, 44)"))
    assert list(machine.queue_masks().values()) == [[machine.grant]]


def queue(code: str) -> str:
    """Create a queue by this request; its first 44 bytes say all that there must be."""
    return (
        "memory = ctypes.create_string_buffer(4096)\n"
        "ring = ctypes.addressof(memory)\n"
        'fields = "ring:64 wptr:64 rptr:64 doorbell:64 size:32 gpu_id:32 type:32 percent:32"\n'
        'fields += " priority:32 id:32 eop:64 eop_size:64 area:64 area_size:32 stack:32"\n'
        "arguments = kfd.layout(fields)(ring, ring, ring, 0, 4096, GPU, kfd.COMPUTE_AQL, 100)\n"
        f"assert not attempt({code}, ctypes.byref(arguments))"
    )


def test_arguments_of_any_size_are_as_the_kernel_takes_them(machine: SimSlice) -> None:
    """Zeroes stand for what is not given: 36 bytes end before the flags, 39 before their unused part."""
    script = (
        "buffer = ctypes.create_string_buffer(16384)\n"
        "def sized(size, wanted):\n"
        "    ctypes.memmove(buffer, ctypes.byref(memory(wanted * MIB)), 40)\n"
        f"    return attempt(kfd.request({ALLOC}, size), buffer)\n"
        "for size in (0, 8, 36): sized(size, 5)\n"
        "for size in (37, 39, 40, 512, 4096, 16383):\n"
        f"    assert (sized(size, {LIMIT_MIB} + 1), sized(size, 5)) == ({errno.ENOMEM}, 0)"
    )
    assert driver_used(machine, script) == 6 * 5


def test_other_devices_requests_with_the_same_numbers_pass(machine: SimSlice) -> None:
    script = (
        "kfd.device = os.open('/dev/null', os.O_RDWR)\n"
        f"print(attempt(kfd.request({ALLOC}, {ALLOC_BYTES}, 0x58), ctypes.byref(memory(1 << 50))))\n"
        f"print(attempt(kfd.request({ALLOC}, {ALLOC_BYTES} - 8), ctypes.byref(memory(1 << 50))))\n"
        "kfd.device = os.pipe()[0]\n"
        f"print(attempt(kfd.request({CREATE_QUEUE}, {QUEUE_BYTES}, 0x58), None))"
    )
    assert output(machine, script) == [NOT_A_DEVICE] * 3


def test_kfds_own_request_is_not_charged_where_another_device_refuses_it(machine: SimSlice) -> None:
    """A request with KFD's letter, number, direction and size is decided without a look at the descriptor."""
    script = (
        "device = kfd.device\n"
        "kfd.device = os.open('/dev/null', os.O_RDWR)\n"
        f"print(attempt(kfd.request({ALLOC}, {ALLOC_BYTES}), ctypes.byref(memory(MIB))))\n"
        f"kfd.device = device; print(kfd.available(GPU) // MIB - {LIMIT_MIB})"
    )
    assert output(machine, script) == [NOT_A_DEVICE, "0"]


ADDRESSES = {
    "null": "0",
    "low": "8",
    "not mapped": "1 << 46",
    "the kernel's": "(1 << 64) - 4096",
    "no access": "page(0)",
    "end of what is mapped": "hole + 4096 - 8",
}


@pytest.mark.parametrize("address", ADDRESSES)
def test_bad_addresses_are_answered(machine: SimSlice, address: str) -> None:
    script = (
        "hole = libc.mmap(0, 8192, 3, 0x22, -1, 0); libc.munmap(ctypes.c_uint64(hole + 4096), 4096)\n"
        f"at = {ADDRESSES[address]}\n"
        f"for number, size in (({ALLOC}, 40), ({CREATE_QUEUE}, 88), ({AVAILABLE}, 16), ({SET_MASK}, 16)):\n"
        "    print(attempt(kfd.request(number, size), ctypes.c_uint64(at)))"
    )
    assert output(machine, script) == [FAULT] * 4


@pytest.mark.parametrize("address", ADDRESSES)
def test_bad_addresses_of_masks_are_answered(machine: SimSlice, address: str) -> None:
    script = (
        f"{queue(f'kfd.request({CREATE_QUEUE}, {QUEUE_BYTES})')}\n"
        "hole = libc.mmap(0, 8192, 3, 0x22, -1, 0); libc.munmap(ctypes.c_uint64(hole + 4096), 4096)\n"
        f"at = {ADDRESSES[address]}\n"
        'arguments = kfd.layout("queue_id:32 bits:32 pointer:64")(0, 128, at)\n'
        f"print(attempt(kfd.request({SET_MASK}, 16), ctypes.byref(arguments)))"
    )
    assert output(machine, script) == [FAULT]
    assert list(machine.queue_masks().values()) == [[machine.grant]]


def test_results_that_cannot_be_written_are_held_all_the_same(machine: SimSlice) -> None:
    """The kernel says so after it has allocated."""
    script = (
        "at = page(3); ctypes.memmove(at, ctypes.byref(memory(7 * MIB)), 40)\n"
        "libc.mprotect(ctypes.c_uint64(at), 4096, 1)\n"
        f"assert attempt(kfd.request({ALLOC}, 40), ctypes.c_uint64(at)) == {errno.EFAULT}\n"
        f"assert kfd.available(GPU) == ({LIMIT_MIB} - 7) * MIB"
    )
    assert driver_used(machine, script) == 7


def test_arguments_on_the_stack_are_read_as_far_as_it_goes(native: Path, built: Path, tmp_path: Path) -> None:
    """The page that the program's frames are on is not asked about, but the one behind it is."""
    container = Slice(tmp_path, native / "libvgpu-test.so", built / "libstubkfd.so")
    container.configure()
    program = tmp_path / "end_of_stack"
    include = f"-I{SOURCES / 'include'}"
    subprocess.run(["cc", *STRICT, include, HERE / "end_of_stack.c", "-o", program], check=True)
    done = subprocess.run([program], env=container.environment(), text=True, capture_output=True, check=False)
    assert (done.stdout, done.returncode) == (f"0 {FAULT}\n", 0)
