"""Memory that many pods left behind goes back to the system, and nothing is done while few come and go."""

import subprocess
import sys

from pytest_mock import MockerFixture

from device_plugin.wiring.memory import MANY_PODS, MemoryReturn, malloc_trim

# Every object but the last is freed: glibc gives nothing back by itself from below one that lives.
SCRIPT = """
from device_plugin.wiring.memory import malloc_trim
def rss():
    return int(open("/proc/self/statm").read().split()[1]) * 4 // 1024
kept = [bytes(1024) for _ in range(100_000)]
last = bytes(1024)
del kept
freed = rss()
malloc_trim()(0)
print(freed - rss())
"""


def test_free_memory_is_given_back_once_many_pods_came_or_went(mocker: MockerFixture) -> None:
    trim, pods = mocker.Mock(return_value=1), mocker.Mock()
    memory = MemoryReturn(pods, trim)
    trimmed = []
    for count in (
        0,
        MANY_PODS - 1,
        MANY_PODS,
        MANY_PODS + 1,
        3 * MANY_PODS,
        2 * MANY_PODS + 1,
        2 * MANY_PODS,
        0,
    ):
        pods.return_value = count
        before = trim.call_count
        memory.step()
        if trim.call_count > before:
            trimmed.append(count)
    assert trimmed == [MANY_PODS, 3 * MANY_PODS, 2 * MANY_PODS, 0]


def test_without_glibc_nothing_is_done() -> None:
    MemoryReturn(lambda: MANY_PODS, None).step()


def test_glibc_gives_back_what_lies_below_memory_in_use() -> None:
    assert malloc_trim() is not None
    ended = subprocess.run([sys.executable, "-c", SCRIPT], check=True, capture_output=True, text=True)
    assert int(ended.stdout) >= 50
