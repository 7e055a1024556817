import random
from collections.abc import Collection

import pytest

from device_plugin.node.vendors.hygon import REST_SECONDS, Pipes
from device_plugin.node.vendors.port import NoVendorIdError


def refused(pipes: Pipes, taken: Collection[int], before: int | None = None) -> bool:
    """True if card c has no pipe now."""
    with pytest.raises(NoVendorIdError, match="card c has no free pipe"):
        pipes.claim("c", taken, before)
    return True


def test_a_pipe_rests_for_a_second_after_its_slice_is_gone() -> None:
    clock = [100.0]
    pipes = Pipes(lambda: clock[0])
    assert [pipes.claim("c", live) for live in ((), (0,), (0, 1), (0, 1, 2))] == [0, 1, 2, 3]
    assert refused(pipes, (0, 1, 2, 3))
    pipes.release("c", 2)
    clock[0] += REST_SECONDS / 2
    assert refused(pipes, (0, 1, 3))
    clock[0] += REST_SECONDS / 2
    assert pipes.claim("c", (0, 1, 3)) == 2


def test_a_restarted_container_waits_for_its_own_pipe_on_a_full_card() -> None:
    clock = [100.0]
    pipes = Pipes(lambda: clock[0])  # a new life of the agent: only the record knows the pipe
    assert refused(pipes, (0, 1, 2), before=3)
    clock[0] += REST_SECONDS
    assert pipes.claim("c", (0, 1, 2), before=3) == 3


def test_cards_have_pipes_of_their_own() -> None:
    pipes = Pipes(lambda: 0.0)
    assert pipes.claim("a", ()) == 0
    assert pipes.claim("b", ()) == 0


def test_no_two_live_slices_share_a_pipe_and_none_is_warm() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng, clock = random.Random(seed), [0.0]
    pipes, live, left = Pipes(lambda: clock[0]), set[int](), dict[int, float]()
    for _ in range(5000):
        clock[0] += rng.random()
        if live and rng.random() < 0.5:
            pipe = rng.choice(sorted(live))
            live.remove(pipe)
            pipes.release("c", pipe)
            left[pipe] = clock[0]
            continue
        try:
            taken = pipes.claim("c", live)
        except NoVendorIdError:
            continue
        assert taken not in live
        assert clock[0] - left.get(taken, -2.0) >= REST_SECONDS or taken not in left
        live.add(taken)
