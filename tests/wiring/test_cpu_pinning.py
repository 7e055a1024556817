"""Threads stay on one CPU at a time, but for those that are free."""

import os
import threading

from device_plugin.wiring.cpu_pinning import CHOOSE_SECONDS, STAY_SECONDS, CpuPinning
from tests.requirement import require


def test_all_but_the_free_threads_stay_where_the_kernel_put_us() -> None:
    allowed = os.sched_getaffinity(0)
    require(len(allowed) > 1, "needs two CPUs")
    end = threading.Event()
    threads = [threading.Thread(target=end.wait, name=name) for name in ("busy", "free")]
    seen: list[tuple[float, dict[str, set[int]], dict[str, int]]] = []

    def wait(seconds: float) -> bool:
        cpus = {t.name: os.sched_getaffinity(t.native_id or 0) for t in threads}
        seen.append((seconds, cpus, manners()))
        return False

    def manners() -> dict[str, int]:
        return {t.name: os.sched_getscheduler(t.native_id or 0) for t in threads}

    for thread in threads:
        thread.start()
    try:
        pinning = CpuPinning(wait, free=["free"])
        pinning.step()
        pinning.step()
        pinning.leave()
        after = {t.name: os.sched_getaffinity(t.native_id or 0) for t in threads}
        last = manners()
    finally:
        for thread in threading.enumerate():
            os.sched_setaffinity(thread.native_id or 0, allowed)
            os.sched_setscheduler(thread.native_id or 0, os.SCHED_OTHER, os.sched_param(0))
        end.set()
        for thread in threads:
            thread.join()
    assert after == {"busy": allowed, "free": allowed}
    assert last == {"busy": os.SCHED_OTHER, "free": os.SCHED_OTHER}
    assert [seconds for seconds, *_ in seen] == [CHOOSE_SECONDS, STAY_SECONDS] * 2
    for seconds, where, how in seen:
        assert (where["free"], how["free"]) == (allowed, os.SCHED_OTHER)
        if seconds == CHOOSE_SECONDS:
            assert (where["busy"], how["busy"]) == (allowed, os.SCHED_OTHER)
        else:
            assert (len(where["busy"]), how["busy"]) == (1, os.SCHED_BATCH)
