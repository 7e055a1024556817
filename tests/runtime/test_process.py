"""New processes, whatever made them: each has a slot of its own and waits for none of its parent's threads."""

import dataclasses
import fcntl
import platform
import subprocess
from pathlib import Path

import pytest

from tests.deadline import until
from tests.runtime.conftest import HERE, MIB, STRICT, Slice
from tests.runtime.test_memory import REFUSED, TRY
from vgpu_runtime import region

SIGCHLD = 17
CLONE = {"x86_64": 56, "aarch64": 220}[platform.machine()]
FLOCK = {"x86_64": 73, "aarch64": 32}[platform.machine()]
# The last two run no handlers of pthread_atfork.
FORKS = {
    "fork": "os.fork()",
    "_Fork": "kfd.libc._Fork()",
    "clone": f"kfd.libc.syscall({CLONE}, {SIGCHLD}, 0, 0, 0, 0)",
}


@pytest.fixture(scope="session")
def old_kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("kernel") / "old_kernel"
    subprocess.run(["cc", *STRICT, HERE / "old_kernel.c", "-o", program], check=True)
    return program


@pytest.fixture(params=["wiped", "compared"])
def container(request: pytest.FixtureRequest, container: Slice, old_kernel: Path) -> Slice:
    """On kernels that wipe memory in a child, and on those before 4.14."""
    if request.param == "compared":
        container = dataclasses.replace(container, runner=(old_kernel,))
    container.configure()
    return container


@pytest.mark.parametrize("fork", FORKS)
def test_child_starts_from_nothing_in_a_slot_of_its_own(container: Slice, fork: str) -> None:
    script = (
        f"a = kfd.alloc(GPU, 600 * MIB)\npid = {FORKS[fork]}\n"
        "if pid == 0:\n"
        "    print(attempt(500 * MIB), attempt(400 * MIB) > 0, kfd.available(GPU) // MIB, flush=True)\n"
        "    os._exit(0)\n"
        "os.waitpid(pid, 0)\n"
        "print(kfd.available(GPU) // MIB); kfd.free(a); print(kfd.available(GPU) // MIB)"
    )
    assert container.output(TRY + script) == [f"{REFUSED} True 24", "424", "1024"]


def test_program_that_a_process_becomes_starts_from_nothing(container: Slice) -> None:
    """The driver frees what the process held before exec."""
    then = (
        "from tests.runtime import kfd; print(kfd.alloc(13261, 900 << 20) > 0); kfd.alloc(13261, 900 << 20)"
    )
    script = (
        f"import sys; kfd.alloc(GPU, 900 * MIB); os.execv(sys.executable, ['python', '-S', '-c', {then!r}])"
    )
    done = container.run(script)
    assert done.stdout == "True\n"
    assert done.stderr.endswith("KfdError: [Errno 12] refused\n")


@pytest.mark.parametrize("fork", FORKS)
def test_child_and_parent_count_beside_each_other(container: Slice, fork: str) -> None:
    script = (
        f"kfd.alloc(GPU, 200 * MIB); done, end = os.pipe(), os.pipe(); pid = {FORKS[fork]}\n"
        "if pid == 0:\n"
        "    os.close(end[1]); os.write(done[1], b'%d' % (attempt(700 * MIB) > 0)); os.read(end[0], 1); os._exit(0)\n"
        "print(os.read(done[0], 1), attempt(700 * MIB), flush=True); input()"
    )
    with container.start(TRY + script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"b'1' {REFUSED}\n"
        usage = region.read(container.region)
        assert (usage.used_bytes[0], usage.live_slots) == (900 * MIB, 2)
        process.communicate("\n", timeout=60)


@pytest.mark.parametrize("fork", FORKS)
def test_parents_death_frees_its_slot_though_a_child_lives(container: Slice, fork: str) -> None:
    script = (
        f"kfd.alloc(GPU, 600 * MIB)\nif {FORKS[fork]}: os._exit(0)\n"
        "print('child', flush=True); input()"
    )  # fmt: skip
    with container.start(script) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "child\n"
        process.wait(timeout=60)
        assert region.read(container.region).live_slots == 0
        process.stdin.write("\n")


@pytest.mark.parametrize("fork", FORKS)
def test_child_does_not_wait_for_a_thread_of_its_parent(container: Slice, fork: str) -> None:
    """The thread is in its first allocation, and waits for the admission lock with the library's own lock held."""
    script = (
        "import threading; input()\n"
        "thread = threading.Thread(target=lambda: kfd.alloc(GPU, MIB)); thread.start()\n"
        f"print(thread.native_id, flush=True); input(); pid = {FORKS[fork]}\n"
        "if pid == 0: kfd.free(7); os._exit(0)\n"
        "print(os.waitpid(pid, 0)[1], flush=True); thread.join()"
    )
    with container.region.open("r+b") as owner, container.start(script) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        fcntl.flock(owner, fcntl.LOCK_EX)
        process.stdin.write("\n")
        process.stdin.flush()
        call = Path(f"/proc/{process.pid}/task/{process.stdout.readline().strip()}/syscall")
        until(lambda: call.read_text().startswith(f"{FLOCK} "), "the thread waits for the lock")
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "0\n"
        owner.close()
        assert process.communicate(timeout=60) == ("", "")
