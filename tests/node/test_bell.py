"""The bell: nobody returns before runtimes were told of his spec, and many are told of at once."""

import threading
from pathlib import Path

import pytest

from device_plugin.node.bell import MOST_SECONDS, SECONDS_A_SPEC, Bell
from hack.embedded.runtime.inotify import FolderWatch


class World:
    """A folder with a bell, and a clock that only sleeping moves on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = 100.0
        self.slept: list[float] = []
        self.let_sleep = threading.Event()
        self.let_sleep.set()
        self.asleep = threading.Event()
        self.bell = Bell(folder, lambda: self.now, self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.asleep.set()
        assert self.let_sleep.wait(10)
        self.slept.append(seconds)
        self.now += seconds

    def spec(self, name: str) -> None:
        (self.folder / f"{name}.json").touch()
        self.bell.changed()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_change_that_comes_alone_is_told_at_once(world: World) -> None:
    watch = FolderWatch(world.folder)
    for number in range(3):
        world.spec(f"s{number}")
        world.bell.ring()
        watch.wait()
        world.now += 1.0
    assert not world.slept
    assert len(list(world.folder.iterdir())) == 3, "nothing is left of the bell"
    watch.close()


def test_nothing_is_told_twice(world: World) -> None:
    world.spec("s")
    world.bell.ring()
    before = world.folder.stat().st_mtime_ns
    world.bell.ring()
    assert world.folder.stat().st_mtime_ns == before
    assert not world.slept


def test_the_more_specs_there_are_the_longer_the_next_one_waits_up_to_a_limit(world: World) -> None:
    for number, wait in ((4, 5 * SECONDS_A_SPEC), (500, MOST_SECONDS)):
        for i in range(number):
            world.spec(f"s{number}-{i}")
        world.now += 1.0
        world.bell.ring()
        world.spec("last")
        world.bell.ring()
        assert world.slept.pop() == pytest.approx(wait)


def test_those_that_wait_together_are_told_of_together(world: World) -> None:
    world.spec("first")
    world.bell.ring()
    world.let_sleep.clear()
    threads = [threading.Thread(target=world.bell.ring) for _ in range(5)]
    for number, thread in enumerate(threads):
        world.spec(f"s{number}")
        thread.start()
        assert world.asleep.wait(10)
    world.let_sleep.set()
    for thread in threads:
        thread.join(10)
    assert len(world.slept) == 1


def test_a_bell_that_broke_rings_for_the_next_one(world: World) -> None:
    world.spec("s")
    blocked = world.folder / ".vgpu-bell"
    blocked.mkdir()
    with pytest.raises(OSError, match="vgpu-bell"):
        world.bell.ring()
    blocked.rmdir()
    watch = FolderWatch(world.folder)
    world.bell.ring()
    watch.wait()
    watch.close()
