"""Reading the render files of all pods: how long a look takes, and that each process has its turn."""

from collections.abc import Collection, Iterator, Sequence

from device_plugin.node.checks.render_files import RenderFile
from device_plugin.node.checks.render_scan import CONTAINER_PROCESSES, READ_SECONDS, RenderScan

FILE_SECONDS = 13e-6


class Host:
    """Processes by pod, each with the number of its open files. Each file takes the kernel FILE_SECONDS."""

    def __init__(self, **pods: list[tuple[int, int]]) -> None:
        self.pods = {pod: dict(processes) for pod, processes in pods.items()}
        self.now = 0.0
        self.read: list[int] = []

    def clock(self) -> float:
        return self.now

    def of(self, pod: str, most: int | None = None) -> Sequence[int]:
        return list(self.pods.get(pod, {}))[:most]

    def open_files(self, process: int) -> Iterator[str]:
        self.read.append(process)
        for pod, processes in self.pods.items():
            for number in range(processes.get(process, 0)):
                self.now += FILE_SECONDS
                yield f"drm-pdev:\tcard-of-{pod}\ndrm-client-id:\t{process}-{number}\n"

    def look(self) -> None:
        raise AssertionError("the agent's other stages do that")

    def live_pods(self) -> Collection[str]:
        raise NotImplementedError

    def mounts(self, process: int) -> tuple[str, bool] | None:
        raise NotImplementedError

    def container(self, process: int) -> tuple[str, str] | None:
        raise NotImplementedError

    def own_mounts(self) -> str:
        raise NotImplementedError


def full(first: int) -> list[tuple[int, int]]:
    """A container with as many processes and files as are read of one."""
    return [(process, 256) for process in range(first, first + CONTAINER_PROCESSES)]


def test_a_look_is_bounded_however_many_files_there_are() -> None:
    host = Host(a=full(1), b=full(1000))
    scan = RenderScan(host, host.clock)
    one_process = 256 * FILE_SECONDS
    for _ in range(100):
        before = host.now
        scan.look(["a", "b"])
        assert host.now - before < READ_SECONDS + one_process
    assert set(host.read) == {process for pod in host.pods.values() for process in pod}


def test_a_pod_with_many_files_does_not_delay_the_others() -> None:
    small = {f"p{number}": [(10_000 + number, 8)] for number in range(31)}
    host = Host(greedy=full(1), **small)
    scan = RenderScan(host, host.clock)
    found = scan.look(list(host.pods))
    assert {process for process in found if process >= 10_000} == {10_000 + number for number in range(31)}


def test_all_pods_come_in_turn_where_a_look_serves_only_some() -> None:
    host = Host(**{f"p{number}": [(number, 1024)] for number in range(1, 10)})
    scan = RenderScan(host, host.clock)
    for _ in range(5):
        scan.look(list(host.pods))
    assert host.read[:9] == list(range(1, 10))
    assert host.read[9] == 1


def test_what_was_read_before_is_kept_until_it_is_read_again() -> None:
    host = Host(a=full(1))
    scan = RenderScan(host, host.clock)
    while len(host.read) < CONTAINER_PROCESSES:
        found = scan.look(["a"])
    assert len(found) == CONTAINER_PROCESSES
    del host.pods["a"][1]
    host.pods["a"][2] = 1
    assert {process: len(files) for process, files in scan.look(["a"]).items()} == {
        2: 1,
        **dict.fromkeys(range(3, CONTAINER_PROCESSES + 1), 256),
    }


def test_only_files_of_render_nodes_are_kept_and_gone_pods_are_forgotten() -> None:
    host = Host(a=[(1, 1), (2, 0)])
    scan = RenderScan(host, host.clock)
    assert scan.look(["a"]) == {1: [RenderFile("card-of-a", "1-0")]}
    assert scan.look([]) == {}
