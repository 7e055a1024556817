from device_plugin.core.token_bucket import TokenBucket


class Clock:
    """A clock that stands still until the test moves it."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_it_fills_up_again_to_its_burst() -> None:
    clock = Clock()
    bucket = TokenBucket(2, 3, clock)
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
    clock.now += 0.5
    assert [bucket.take() for _ in range(2)] == [True, False]
    clock.now += 3600
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]


def test_tokens_are_kept_for_others() -> None:
    bucket = TokenBucket(2, 3, Clock())
    assert [bucket.take(keep=2) for _ in range(2)] == [True, False]
    assert [bucket.take() for _ in range(3)] == [True, True, False]
