"""Who waits and why, found out while others are placed."""

from device_plugin.cluster.explain import Explainer
from tests.cluster.world import Apart, Replica, World


def test_between_two_requests_that_differ_others_are_placed(world: World, one: Replica) -> None:
    """With every scrape all that wait are tried: whoever makes a thousand pods that differ must not stop the rest."""
    for size in (17, 18, 19):
        world.pod(f"large-{size}", size)
    other = world.pod("other")
    placed: list[str] = []

    def pause() -> None:
        apart = Apart()
        apart.run(lambda: placed.append(one.ask(other)))
        apart.join()

    waiting = Explainer(one.state, one.leader, "vgpu-scheduler", pause).waiting()
    assert placed == ["n1"] * 3
    assert [entry.pod for entry in waiting] == ["large-17", "large-18", "large-19"], "the other waits no more"


def test_requests_that_are_equal_are_tried_once(world: World, one: Replica) -> None:
    pauses = []
    for number in range(5):
        world.pod(f"large-{number}", 17)
    waiting = Explainer(one.state, one.leader, "vgpu-scheduler", lambda: pauses.append(0)).waiting()
    assert len(waiting) == 5
    assert len(pauses) == 1
