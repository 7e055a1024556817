"""Runtimes are told of every spec before its container goes on, and of many specs at once."""

import threading
from pathlib import Path

import pytest

from device_plugin.node.stages.inject import MOST_SECONDS, SECONDS_A_SPEC, CdiReload
from hack.embedded.runtime.inotify import FolderWatch


class World:
    """A folder of specs, and a clock that only sleeping moves on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = 100.0
        self.slept: list[float] = []
        self.let_sleep = threading.Event()
        self.let_sleep.set()
        self.asleep = threading.Event()
        self.reload = CdiReload(folder, lambda: self.now, self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.asleep.set()
        assert self.let_sleep.wait(60.0)
        self.slept.append(seconds)
        self.now += seconds

    def spec(self, name: str) -> None:
        (self.folder / f"{name}.json").touch()
        self.reload.changed()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_change_that_comes_alone_is_told_at_once(world: World) -> None:
    watch = FolderWatch(world.folder)
    for number in range(3):
        world.spec(f"s{number}")
        world.reload.notify()
        watch.wait()
        world.now += 1.0
    assert not world.slept
    assert len(list(world.folder.iterdir())) == 3, "no notice is left"
    watch.close()


def test_nothing_is_told_twice(world: World) -> None:
    world.spec("s")
    world.reload.notify()
    before = world.folder.stat().st_mtime_ns
    world.reload.notify()
    assert world.folder.stat().st_mtime_ns == before
    assert not world.slept


def test_the_more_specs_there_are_the_longer_the_next_one_waits_up_to_a_limit(world: World) -> None:
    for number, wait in ((4, 5 * SECONDS_A_SPEC), (500, MOST_SECONDS)):
        for i in range(number):
            world.spec(f"s{number}-{i}")
        world.now += 1.0
        world.reload.notify()
        world.spec("last")
        world.reload.notify()
        assert world.slept.pop() == pytest.approx(wait)


def test_those_that_wait_together_are_told_of_together(world: World) -> None:
    world.spec("first")
    world.reload.notify()
    world.let_sleep.clear()
    threads = [threading.Thread(target=world.reload.notify) for _ in range(5)]
    for number, thread in enumerate(threads):
        world.spec(f"s{number}")
        thread.start()
        assert world.asleep.wait(60.0)
    world.let_sleep.set()
    for thread in threads:
        thread.join(60.0)
    assert len(world.slept) == 1


def test_what_could_not_be_told_is_told_by_the_next_one(world: World) -> None:
    world.spec("s")
    blocked = world.folder / ".vgpu-reload"
    blocked.mkdir()
    with pytest.raises(OSError, match="vgpu-reload"):
        world.reload.notify()
    blocked.rmdir()
    watch = FolderWatch(world.folder)
    world.reload.notify()
    watch.wait()
    watch.close()
