"""The grant annotation: exact round trips, and nothing but AnnotationError for anything else."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_plugin.core.contract.grants import CardSize, Grant, Slice
from device_plugin.core.errors import AnnotationError
from device_plugin.core.pods import Container, ContainerKind, Pod
from tests.core.contract.texts import JSON, changed, is_cores, is_int, is_text, loaded, randomly_changed, read

GRANT = Grant("uid-1", "n1", {"main": (Slice("c0", 4092, (0, 1, 2)),), "side": (Slice("c0", 100, (7,)),)})

SLICE = ["containers", "main", 0]
HELD = {"card": "c9", "memMiB": 1, "cores": [0]}


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["containers"], {}, "containers: expected object of length >= 1"),
        (["containers"], [], "containers: expected object, got array"),
        (
            ["containers"],
            {f"c{i}": [HELD] for i in range(300)},
            "containers: expected object of length <= 256",
        ),
        (["containers", "main"], [], r"containers\[...\]: expected array of length >= 1"),
        (["containers", "main"], [None] * 65, "expected array of length <= 64|expected object"),
        (["containers", "main"], [None], "expected object, got null"),
        (["containers", "main"], [{"card": "c", "memMiB": 1, "cores": [0]}] * 2, "two slices of one card"),
        (["containers", "side", 0, "cores"], [2, 7], "two containers hold the same core group"),
        ([*SLICE, "memMiB"], -4092, r"containers\[...\]\[0\].memMiB: expected int >= 1"),
        ([*SLICE, "memMiB"], 0, "memMiB: expected int >= 1"),
        ([*SLICE, "memMiB"], 2**63, "memMiB: expected int <= 1099511627776"),
        ([*SLICE, "memMiB"], "4092", "memMiB: expected int, got str"),
        ([*SLICE, "memMiB"], 4092.0, "memMiB: expected int, got float"),
        ([*SLICE, "cores"], [-1], r"cores\[0\]: expected int >= 0"),
        ([*SLICE, "cores"], [], "cores: expected array of length >= 1"),
        ([*SLICE, "cores"], [1, 1], "container main: cores must be distinct and ascending"),
        ([*SLICE, "cores"], [2, 1], "distinct and ascending"),
        ([*SLICE, "cores"], [10**9], "expected int <= 1023"),
        ([*SLICE, "cores"], [True], "expected int, got bool"),
        ([*SLICE, "cores"], None, "cores: expected array, got null"),
        ([*SLICE, "card"], "", "card: expected str of length >= 1"),
        ([*SLICE, "card"], "x" * 254, "card: expected str of length <= 253"),
        ([*SLICE, "card"], "c\nmask = all", r"containers.main\[0\].card must have printable characters only"),
        ([*SLICE, "card"], "\ud800", "not JSON"),
        (["containers", "\x1b]0;x\x07"], [HELD], "a key of containers must have printable characters only"),
        (["containers", "c" * 64], [HELD], "a key of containers: expected str of length <= 63"),
        (
            ["cards"],
            {"\x1b[2J": {"memMiB": 1, "maxSlices": 1}},
            "a key of cards must have printable characters only",
        ),
        (["cards"], {"c": {"memMiB": 1}}, r"cards\[...\]: object missing required field maxSlices"),
        (["pod"], ..., "grant: object missing required field pod"),
        (["gen"], 0, "gen: expected int >= 1"),
        (["gen"], ..., "object missing required field gen"),
    ],
)
def test_a_malformed_grant_is_refused_with_the_key(path: list[Any], value: object, message: str) -> None:
    with pytest.raises(AnnotationError, match=message):
        Grant.decode(changed(GRANT.encode(), path, value))


@given(
    JSON, st.sampled_from([["containers"], ["containers", "main"], SLICE, [*SLICE, "cores"], ["gen"], ["v"]])
)
def test_any_json_in_any_place_of_a_grant_is_read_or_refused(value: object, path: list[Any]) -> None:
    with contextlib.suppress(AnnotationError):
        Grant.decode(changed(GRANT.encode(), path, value))


def test_what_is_written_is_read() -> None:
    assert Grant.decode(GRANT.encode()) == GRANT
    assert Grant.decode(changed(GRANT.encode(), [*SLICE, "colour"], "red")) == GRANT
    assert Grant.decode(json.dumps(json.loads(GRANT.encode()), indent=1)) == GRANT


def test_equal_grants_have_equal_texts() -> None:
    made = Grant(
        "u", "n", {"b": (Slice("c0", 4, (1,), percent=25),), "a": (Slice("ü", 4, (0,)),)},
        cards={"ü": CardSize(9, 4), "c0": CardSize(8, 2)},
    )  # fmt: skip
    assert made.encode() == (
        '{"v":1,"gen":1,"pod":"u","node":"n","containers":{"a":[{"card":"\\u00fc","memMiB":4,"cores":[0]}],'
        '"b":[{"card":"c0","memMiB":4,"cores":[1],"percent":25}]},"cards":{"c0":{"memMiB":8,"maxSlices":2},'
        '"\\u00fc":{"memMiB":9,"maxSlices":4}}}'
    )
    assert Grant.decode(made.encode()) == made


USUAL = Grant(
    "uid", "gpu-1", {"main": (Slice("GPU-1", 4092, (0, 1, 2)),)}, cards={"GPU-1": CardSize(16368, 4)}
)


def test_a_text_that_is_changed_at_random_is_read_where_it_is_sound_and_nowhere_else() -> None:
    soundness = []
    for text in randomly_changed(USUAL.encode(), 3000):
        found, body = read(Grant.decode, text), loaded(text)
        assert (found is not None) == sound(body), text
        if isinstance(found, Grant):
            assert json.loads(found.encode()) == {key: body[key] for key in json.loads(found.encode())}
        soundness.append(found is not None)
    assert {*soundness} == {True, False}


def sound(body: Any) -> bool:
    """True for a grant of the container main, by the contract's words and by other code than the reader."""
    held, sizes = body.get("containers"), body.get("cards", {})
    if not (isinstance(held, dict) and isinstance(sizes, dict) and held):
        return False
    slices = [each for held_by in held.values() if isinstance(held_by, list) for each in held_by]
    return (
        type(body.get("v")) is int
        and body["v"] == 1
        and is_int(body.get("gen"))
        and all(is_text(body.get(key)) for key in ("pod", "node"))
        and all(is_text(name, 63) for name in held)
        and all(isinstance(held_by, list) and held_by for held_by in held.values())
        and all(
            isinstance(each, dict)
            and is_text(each.get("card"))
            and is_int(each.get("memMiB"))
            and is_cores(each.get("cores"))
            for each in slices
        )
        and all(is_text(uuid) for uuid in sizes)
        and all(
            isinstance(size, dict) and all(is_int(size.get(key)) for key in ("memMiB", "maxSlices"))
            for size in sizes.values()
        )
    )


@pytest.mark.parametrize(
    ("pod", "message"),
    [
        (
            Pod("ns", "p", "uid-2", "n1", annotations={"vgpu.io/grant": GRANT.encode()}),
            "written for pod uid-1",
        ),
        (Pod("ns", "p", "uid-1", "n2", annotations={"vgpu.io/grant": GRANT.encode()}), "written for node n1"),
        (Pod("ns", "p", "uid-1", "n1", annotations={"vgpu.io/grant": GRANT.encode()}), "no container main"),
    ],
)
def test_a_grant_that_is_not_the_pods_own_is_void(pod: Pod, message: str) -> None:
    with pytest.raises(AnnotationError, match=message):
        pod.grant()


def test_a_pod_reads_its_own_grant() -> None:
    containers = tuple(Container(name, ContainerKind.MAIN, {}) for name in ("main", "side"))
    pod = Pod("ns", "p", "uid-1", "n1", annotations={"vgpu.io/grant": GRANT.encode()}, containers=containers)
    assert pod.grant() == GRANT
    assert Pod("ns", "p", "uid-1", "n1").grant() is None
