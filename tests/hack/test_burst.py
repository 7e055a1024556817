"""hack/burst: a round begins when nothing of the round before is left to clear away."""

import time

import pytest

from hack.measure import burst


def test_a_round_waits_until_the_containers_of_the_one_before_are_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = iter([127, 67, 7, 7])
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    burst.await_clearance(lambda: next(looks), 7)
    assert len(pauses) == 2
    assert next(looks) == 7  # it was content with the first look that showed none


def test_containers_that_stay_end_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(0, 10_000, 100))
    monkeypatch.setattr(time, "monotonic", lambda: next(now))
    monkeypatch.setattr(time, "sleep", lambda _: None)
    with pytest.raises(SystemExit, match="3 containers of pods that are gone"):
        burst.await_clearance(lambda: 10, 7)
