"""A finding counts once it has lasted, and until it has been away for as long as the check says."""

import random

from device_plugin.node.checks.lasting import Lasting


def test_a_finding_counts_after_its_seconds_and_each_change_is_reported_once() -> None:
    now = [0.0]
    lasting = Lasting[str](lambda: now[0], 30.0, 10.0)
    changes = []
    for second in range(100):
        now[0] = float(second)
        if lasting.note("card", found=20 <= second < 60):
            changes.append((second, "card" in lasting))
    assert changes == [(50, True), (70, False)]


def test_a_break_begins_anew() -> None:
    now = [0.0]
    lasting = Lasting[str](lambda: now[0], 30.0)
    for second, found in ((0, True), (29, False), (30, True), (59, True)):
        now[0] = float(second)
        assert not lasting.note("card", found=found)
    assert lasting.unsure("card")
    now[0] = 60.0
    assert lasting.note("card", found=True)
    assert not lasting.unsure("card")
    assert lasting.note("card", found=False), "it is no longer there"


def test_what_counts_was_found_without_a_break() -> None:
    """Against the times at which each of a few processes was seen."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    now, since = [0.0], dict[int, float]()
    lasting = Lasting[int](lambda: now[0], 30.0)
    for _ in range(300):
        now[0] += rng.uniform(1, 9)
        found = {process for process in range(5) if rng.random() < 0.9}
        since = {process: since.get(process, now[0]) for process in found}
        assert lasting.note_all(found) == {p for p, at in since.items() if now[0] - at >= 30.0}


def test_what_is_forgotten_is_not_known_any_more() -> None:
    now = [0.0]
    lasting = Lasting[str](lambda: now[0], 30.0)
    for second in (0.0, 30.0):
        now[0] = second
        lasting.note("a", found=True)
        lasting.note("b", found=second > 0)
    lasting.keep(["b"])
    assert "a" not in lasting
    assert lasting.unsure("b")
    lasting.keep([])
    assert not lasting.unsure("b")
