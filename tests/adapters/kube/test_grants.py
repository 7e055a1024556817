"""Grants that are read fast are those that Grant.decode reads."""

import random
from collections.abc import Callable

import pytest

from device_plugin.adapters.kube import grants
from device_plugin.adapters.kube.grants import read_grant
from device_plugin.core.errors import AnnotationError
from device_plugin.core.grants import CardSize, Grant, Slice

NODE = "gpu-1"
USUAL = Grant("uid", NODE, {"main": (Slice("GPU-1", 4092, (0, 1, 2)),)}, cards={"GPU-1": CardSize(16368, 4)})


def test_a_grant_of_one_slice_is_read_fast() -> None:
    assert grants._usual(USUAL.encode()) == Grant.decode(USUAL.encode()) == USUAL


@pytest.mark.parametrize(
    "grant",
    [
        Grant("uid", NODE, {"a": (Slice("x", 1, (0,)), Slice("y", 1, (0,)))}),
        Grant("uid", NODE, {"a": (Slice("x", 1, (0,)),), "b": (Slice("x", 1, (1,)),)}),
        Grant(
            "uid",
            NODE,
            {"a": (Slice("GPU-0000:19:00.0", 1, (0,)),)},
            cards={"GPU-0000:19:00.0": CardSize(1, 1)},
        ),
        Grant("uid", NODE, {"a": (Slice("x", 1, (0,), percent=25),)}),
        Grant("uid", NODE, {"a": (Slice("x", 1, (0,)),)}),
    ],
)
def test_other_grants_are_read_too(grant: Grant) -> None:
    assert read_grant(grant.encode()) == Grant.decode(grant.encode())


def test_a_text_that_is_changed_at_random_is_read_as_grant_decode_reads_it() -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    rng = random.Random(seed)
    lists, texts = ["[]", "[1,0]", "[1,1]", "[1024]"], ['"x"', '""', '"\\u202e"']
    pieces = ["0", "-1", "1.5", "true", "null", "{}", str(2**41), *lists, *texts]
    whole, read = USUAL.encode(), 0
    for _ in range(2000):
        words = whole.replace(",", "|,|").replace(":", "|:|").split("|")
        words[rng.randrange(len(words))] = rng.choice(pieces)
        text = "".join(words)
        expected = decoded(text, Grant.decode)
        assert decoded(text, read_grant) == expected
        read += isinstance(expected, Grant)
    assert read


def decoded(text: str, decode: Callable[[str], Grant]) -> Grant | str:
    try:
        return decode(text)
    except AnnotationError as error:
        return str(error)
