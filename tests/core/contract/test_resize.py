"""The record of a resize: exact round trips, a bounded length, and nothing but AnnotationError for anything else."""

import contextlib
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_plugin.core.contract.grants import CardSize, Grant, Slice
from device_plugin.core.contract.resize import CONTAINER, MAX_RECORD, Resize
from device_plugin.core.errors import AnnotationError

LEAVING = Grant("uid-7", "n1", {CONTAINER: (Slice("c0", 4092, (0, 2, 3, 4)), Slice("c1", 16368, (7,)))})
RECORD = Resize(
    gen=7, before=8, after=4, asked=1_763_800_000, until=1_763_800_300, beneficiary=("default", "b"), replicas=4,
    priority=-5, grants=(LEAVING,), attained=7200, author_width=6,
)  # fmt: skip
NAMES = st.text("abcdefghijklmnopqrstuvwxyz0123456789-", min_size=1, max_size=63)
SLICES = st.builds(
    Slice, NAMES, st.integers(1, 2**40),
    st.sets(st.integers(0, 1023), min_size=1).map(lambda cores: tuple(sorted(cores))),
)  # fmt: skip
GRANTS = st.builds(
    lambda pod, node, slices: Grant(pod, node, {CONTAINER: tuple(slices)}),
    NAMES, NAMES, st.lists(SLICES, min_size=1, max_size=3),
)  # fmt: skip
TIMES = st.integers(0, 250_000_000_000)


def test_a_record_is_written_as_people_read_it() -> None:
    assert RECORD.encode() == (
        '{"v":1,"gen":7,"from":8,"to":4,"asked":"2025-11-22T08:26:40Z","until":"2025-11-22T08:31:40Z",'
        '"applied":false,"attained":7200,"authorWidth":6,"for":"default/b","replicas":4,"priority":-5,"grants":[{"pod":"uid-7","node":"n1","slices":['
        '{"card":"c0","memMiB":4092,"cores":"0,2-4"},{"card":"c1","memMiB":16368,"cores":"7"}]}]}'
    )


@given(
    st.integers(1, 2**40), st.integers(0, 4096), st.integers(0, 4096), TIMES, TIMES,
    st.none() | st.tuples(NAMES, NAMES), st.integers(0, 4096), st.booleans(),
    st.lists(GRANTS, max_size=3, unique_by=lambda grant: grant.pod), st.integers(0, 2**40),
    st.integers(0, 2**40), TIMES, st.integers(0, 2**40), st.just("") | NAMES, st.integers(0, 4096),
    st.integers(-(2**31), 2**31 - 1), TIMES, st.integers(0, 2**40),
)  # fmt: skip
def test_what_is_written_is_read(
    gen: int, before: int, after: int, asked: int, until: int, job: tuple[str, str] | None, replicas: int,
    applied: bool, grants: list[Grant], attained: int, unsaved: int, spared: int, refusals: int, refusal: str,
    author_width: int, priority: int, held_since: int, held_for: int,
) -> None:  # fmt: skip
    record = Resize(
        gen=gen, before=before, after=after, asked=asked, until=until, beneficiary=job,
        replicas=replicas if job else 0, applied=applied, grants=tuple(grants), attained=attained,
        priority=priority if job else 0, unsaved=unsaved, spared_until=spared, refusals=refusals, refusal=refusal,
        author_width=author_width, held_since=held_since, held_for=held_for,
    )  # fmt: skip
    assert Resize.decode(record.encode()) == record


def test_containers_and_sizes_of_a_grant_are_not_written() -> None:
    held = Grant(
        "uid-7", "n1", {"a": (Slice("c0", 4092, (0, 2, 3, 4)),), "b": (Slice("c1", 16368, (7,)),)},
        cards={"c0": CardSize(16368, 4)},
    )  # fmt: skip
    assert replace(RECORD, grants=[held]).encode() == RECORD.encode()


def test_a_record_of_too_many_pods_names_as_many_as_fit() -> None:
    """About 110 pods of one card each."""
    uid = "0b9f9d1e-5c4e-4c53-9d0e-3b1d7f2a{:04}"
    leaving = [
        Grant(uid.format(number), "gpu-node-17", {CONTAINER: (Slice("GPU-1122334455667788", 65520, (*range(60),)),)})
        for number in range(1024)
    ]  # fmt: skip
    text = replace(RECORD, grants=leaving).encode()
    read = Resize.decode(text)
    assert list(read.grants) == leaving[: len(read.grants)]
    assert 100 < len(read.grants) < 1024
    assert len(text) <= MAX_RECORD < len(text) + 200


GRANT, SLICE = ["grants", 0], ["grants", 0, "slices", 0]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["v"], 2, "version 2"),
        (["gen"], 0, "gen: expected int >= 1"),
        (["from"], -1, "from: expected int >= 0"),
        (["to"], True, "to: expected int, got bool"),
        (["asked"], ..., "missing required field asked"),
        (["until"], "soon", "until: expected a time such as"),
        (["until"], "2025-02-30T08:26:40Z", "until: "),
        (["until"], "2025-11-22T08:26:40+01:00", "until: expected str of length <= 20"),
        (["until"], "٢٠٢٥-11-22T08:26:40Z", "until: expected a time such as"),
        (["applied"], "yes", "applied: expected bool, got str"),
        (["for"], "b", "for must be the namespace and the name"),
        (["for"], "a/b/c/d", "for must be the namespace and the name"),
        (["for"], "x" * 400, "for: expected str of length <= 317"),
        (["replicas"], "4", "replicas: expected int, got str"),
        (["replicas"], ..., "missing required field replicas"),
        (["grants"], {}, "grants: expected array, got object"),
        (["grants"], [None], r"grants\[0\]: expected object, got null"),
        ([*GRANT, "pod"], "", r"grants\[0\].pod: expected str of length >= 1"),
        ([*GRANT, "node"], "n\n1", "printable"),
        ([*GRANT, "slices"], [], "slices: expected array of length >= 1"),
        ([*SLICE, "memMiB"], 0, "memMiB: expected int >= 1"),
        ([*SLICE, "cores"], [0], "cores: expected str, got array"),
        ([*SLICE, "cores"], "", "cores: expected str of length >= 1"),
        ([*SLICE, "cores"], "3-1", "ascending ids"),
        ([*SLICE, "cores"], "1,1", "ascending ids"),
        ([*SLICE, "cores"], "0-1024", "below 1024"),
        ([*SLICE, "cores"], "-1", "ascending ids"),
        ([*SLICE, "cores"], "1,", "ascending ids"),
    ],
)
def test_a_malformed_record_is_refused_with_the_key(path: list[Any], value: object, message: str) -> None:
    body = json.loads(RECORD.encode())
    inner = body
    for key in path[:-1]:
        inner = inner[key]
    if value is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    with pytest.raises(AnnotationError, match=message):
        Resize.decode(json.dumps(body))


def test_a_short_text_that_names_many_core_groups_is_refused() -> None:
    card = {"card": "c", "memMiB": 1, "cores": "0-1023"}
    grants = [{"pod": f"p{number}", "node": "n", "slices": [card]} for number in range(17)]
    text = json.dumps({**json.loads(RECORD.encode()), "grants": grants})
    with pytest.raises(AnnotationError, match="more than 16384 core groups"):
        Resize.decode(text)
    leaving = [Grant(each["pod"], "n", {CONTAINER: (Slice("c", 1, (*range(1024),)),)}) for each in grants]  # type: ignore[arg-type]
    assert len(Resize.decode(replace(RECORD, grants=leaving).encode()).grants) == 16


def test_two_grants_of_one_pod_are_refused() -> None:
    with pytest.raises(AnnotationError, match="two grants of one pod"):
        Resize.decode(replace(RECORD, grants=[LEAVING, LEAVING]).encode())


def test_a_text_of_256_kib_is_refused_unread() -> None:
    with pytest.raises(AnnotationError, match="262144 characters long, at most 16384"):
        Resize.decode("[" * 262_144)


@given(st.text(max_size=200) | st.text("0123456789-,", max_size=40))
def test_no_text_does_more_than_be_refused(text: str) -> None:
    body = json.loads(RECORD.encode())
    body["grants"][0]["slices"][0]["cores"] = text
    for hostile in (text, json.dumps(body), json.dumps({**body, "until": text, "for": text})):
        with contextlib.suppress(AnnotationError):
            Resize.decode(hostile)
