"""Threads stay on one CPU at a time, but for those that are free."""

import os
import threading

from device_plugin.wiring.one_cpu import CHOOSE_SECONDS, STAY_SECONDS, OneCpu
from tests.requirement import require


def test_all_but_the_free_threads_stay_where_the_kernel_put_us() -> None:
    allowed = os.sched_getaffinity(0)
    require(len(allowed) > 1, "needs two CPUs")
    end = threading.Event()
    threads = [threading.Thread(target=end.wait, name=name) for name in ("busy", "free")]
    seen: list[tuple[float, dict[str, set[int]]]] = []

    def wait(seconds: float) -> bool:
        seen.append((seconds, {t.name: os.sched_getaffinity(t.native_id or 0) for t in threads}))
        return False

    for thread in threads:
        thread.start()
    try:
        one_cpu = OneCpu(wait, free=["free"])
        one_cpu.step()
        one_cpu.step()
        one_cpu.leave()
        after = {t.name: os.sched_getaffinity(t.native_id or 0) for t in threads}
    finally:
        for thread in threading.enumerate():
            os.sched_setaffinity(thread.native_id or 0, allowed)
        end.set()
        for thread in threads:
            thread.join()
    assert after == {"busy": allowed, "free": allowed}
    assert [seconds for seconds, _ in seen] == [CHOOSE_SECONDS, STAY_SECONDS] * 2
    for seconds, where in seen:
        assert where["free"] == allowed
        assert where["busy"] == allowed if seconds == CHOOSE_SECONDS else len(where["busy"]) == 1
