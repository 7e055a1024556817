"""Readings of a live screen: errors of ours are shown until they end, others end the screen."""

import pytest

from device_plugin.cli.live.feed import LiveFeed
from device_plugin.cli.live.view import Frame
from device_plugin.kube.errors import UnknownError
from tests.deadline import until


class World:
    def __init__(self) -> None:
        self.now = 100.0
        self.error: BaseException | None = None
        self.feed = LiveFeed(self.read, lambda: self.now)

    def read(self) -> tuple[list[int], str]:
        if self.error is not None:
            raise self.error
        return [1], "a note"


def test_what_is_lost_is_said_with_its_time_until_it_is_back() -> None:
    world = World()
    world.feed.step()
    assert world.feed.frame() == Frame([1], "a note")
    world.error = UnknownError("refused")
    world.feed.step()
    world.now += 65
    world.feed.step()
    found = world.feed.frame()
    assert (found.rows, found.lost) == ([1], "connection lost, figures of 1m5s ago: refused")
    world.error = None
    world.feed.step()
    assert world.feed.frame() == Frame([1], "a note")


def test_each_source_is_back_for_itself() -> None:
    feed = World().feed
    feed.heard("pods", UnknownError("a"))
    feed.heard("nodes", UnknownError("b"))
    feed.heard("pods", None)
    assert feed.frame().lost.endswith("b")
    feed.heard("nodes", None)
    assert feed.frame().lost == ""


def test_an_error_of_the_program_is_raised_where_it_is_seen() -> None:
    world = World()
    world.error = ZeroDivisionError("x")

    def broken() -> bool:
        try:
            world.feed.frame()
        except ZeroDivisionError:
            return True
        return False

    with world.feed.running():
        until(broken)
    with pytest.raises(ZeroDivisionError):
        world.feed.frame()
