"""The memory limit, at the level of the driver's calls."""

import pytest

from tests.runtime.conftest import MIB, Slice, card
from tests.runtime.torture import violations

TRY = """
def attempt(size, gpu=GPU, flags=kfd.VRAM):
    try:
        return kfd.alloc(gpu, size, flags)
    except OSError as error:
        return os.strerror(error.errno)
"""
REFUSED = "Cannot allocate memory"


def test_limit_and_free(container: Slice) -> None:
    container.configure()
    lines = container.output(
        TRY
        + "a = attempt(1000 * MIB); print(a >> 32); print(attempt(25 * MIB)); kfd.free(a); print(attempt(25 * MIB) > 0)"
    )
    assert lines == ["13261", REFUSED, "True"]


def test_exactly_the_limit_fits_and_no_page_more(container: Slice) -> None:
    container.configure(card(mem_bytes=64 * MIB))
    lines = container.output(TRY + "print(attempt(64 * MIB + 1)); print(attempt(64 * MIB) > 0)")
    assert lines == [REFUSED, "True"]


def test_sizes_count_in_whole_pages(container: Slice) -> None:
    container.configure()
    lines = container.output("kfd.alloc(GPU, 1)\nprint(kfd.available(GPU))")
    assert lines == [str(1024 * MIB - 4096)]


@pytest.mark.parametrize("size", ["2**64 - 1", "2**64 - 4096", "2**63", "2**50"])
def test_sizes_that_overflow(container: Slice, size: str) -> None:
    container.configure()
    assert container.output(TRY + f"kfd.alloc(GPU, MIB); print(attempt({size}))") == [REFUSED]


def test_small_allocations_have_a_reserve(container: Slice) -> None:
    container.configure(card(mem_bytes=64 * MIB))
    lines = container.output(
        TRY + "kfd.alloc(GPU, 64 * MIB); print(attempt(65537)); n = 0\n"
        "while isinstance(attempt(65536), int): n += 1\n"
        "print(n)"
    )
    assert lines == [REFUSED, str(32 * MIB // 65536)]


def test_only_card_memory_is_charged(container: Slice) -> None:
    container.configure()
    assert container.output(
        TRY + "print(attempt(1 << 40, flags=2) > 0); print(attempt(1 << 40, flags=4) > 0)"
    ) == [
        "True",
        "True",
    ]


def test_card_that_is_not_ours(container: Slice) -> None:
    container.configure()
    assert container.output(TRY + "print(attempt(4096, gpu=99)); print(kfd.available(99))") == [REFUSED, "0"]


def test_cards_have_limits_of_their_own(container: Slice) -> None:
    container.configure(card(), card(gpu_id=7, mem_bytes=8 * MIB))
    lines = container.output(
        TRY + "print(attempt(900 * MIB) > 0, attempt(9 * MIB, gpu=7), attempt(8 * MIB, gpu=7) > 0)"
    )
    assert lines == [f"True {REFUSED} True"]


def test_available_is_what_is_left_of_the_slice(container: Slice) -> None:
    container.configure()
    script = "print(kfd.available(GPU) // MIB); kfd.alloc(GPU, 24 * MIB); print(kfd.available(GPU) // MIB)"
    assert container.output(script) == ["1024", "1000"]


def test_available_is_what_the_card_has_where_that_is_less(container: Slice) -> None:
    container.configure(card(mem_bytes=32 << 30))
    assert container.output("print(kfd.available(GPU) >> 30)") == ["16"]


def test_refusal_by_the_driver_is_rolled_back(container: Slice) -> None:
    container.configure()
    script = "print(attempt(900 * MIB)); print(kfd.available(GPU) // MIB)"
    assert container.output(TRY + script, STUB_FAIL="0x16") == ["Input/output error", "1024"]


def test_failed_free_stays_charged(container: Slice) -> None:
    container.configure()
    script = (
        "a = kfd.alloc(GPU, 900 * MIB)\n"
        "os.environ['STUB_FAIL'] = '0x17'\n"
        "try: kfd.free(a)\n"
        "except OSError as error: print(error.errno)\n"
        "os.environ['STUB_FAIL'] = '0'\n"
        "print(kfd.available(GPU) // MIB); kfd.free(a); print(kfd.available(GPU) // MIB)"
    )
    assert container.output(TRY + script) == ["5", "124", "1024"]


def test_many_handles(container: Slice) -> None:
    container.configure()
    script = (
        "import random\n"
        "live = [kfd.alloc(GPU, 4096) for _ in range(20000)]\n"
        "random.Random(1).shuffle(live)\n"
        "[kfd.free(handle) for handle in live[:15000]]\n"
        "live = live[15000:] + [kfd.alloc(GPU, 4096) for _ in range(15000)]\n"
        "[kfd.free(handle) for handle in live[1:]]\n"
        "print(1024 * MIB - kfd.available(GPU))"
    )
    assert container.output(script) == ["4096"]


def test_threads(container: Slice) -> None:
    container.configure(card(mem_bytes=64 * MIB))
    script = (
        "import threading\n"
        "def work():\n"
        "    for _ in range(60):\n"
        "        held = [h for h in (attempt(4 * MIB) for _ in range(4)) if isinstance(h, int)]\n"
        "        for handle in held: kfd.free(handle)\n"
        "threads = [threading.Thread(target=work) for _ in range(8)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
        "print(kfd.available(GPU) // MIB)"
    )
    truth = container.folder / "truth"
    truth.touch()
    assert container.output(TRY + script, STUB_TRUTH=str(truth), STUB_LIMIT=str(64 * MIB)) == ["64"]
    assert violations(truth) == 0


def test_neighbours_in_the_container_share_the_limit(container: Slice) -> None:
    container.configure()
    script = (
        "import subprocess, sys\n"
        "kfd.alloc(GPU, 700 * MIB)\n"
        "code = 'from tests.runtime import kfd; kfd.alloc(13261, 400 << 20)'\n"
        "print(subprocess.run([sys.executable, '-c', code], stderr=subprocess.DEVNULL).returncode)\n"
        "code = 'from tests.runtime import kfd; kfd.alloc(13261, 300 << 20); print(kfd.available(13261) >> 20)'\n"
        "print(subprocess.run([sys.executable, '-c', code], capture_output=True, text=True).stdout.strip())\n"
        "print(kfd.available(GPU) // MIB)"
    )
    assert container.output(script) == ["1", "24", "324"]
