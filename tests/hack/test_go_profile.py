"""The reader of Go's profiles, on a profile that is encoded here by the rules of protobuf."""

import gzip
from xml.etree import ElementTree

from hack.measure import go_profile

NAMES = ["", "main.run", "sched.(*HTTPExtender).Filter", "sched.score", "net.read"]


def varint(number: int) -> bytes:
    written = b""
    while number > 0x7F:
        written += bytes([number & 0x7F | 0x80])
        number >>= 7
    return written + bytes([number])


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def sample(count: int, *locations: int) -> bytes:
    packed = b"".join(map(varint, locations))
    return field(2, field(1, packed) + field(2, varint(count) + varint(10_000_000)))


def profile() -> bytes:
    """Function n has the name n. Location 300 + n is in function n, and location 900 in 4, which is inlined in 2."""
    strings = b"".join(field(6, name.encode()) for name in NAMES)
    functions = b"".join(field(5, field(1, n) + field(2, n)) for n in range(1, len(NAMES)))
    line = {n: field(4, field(1, n)) for n in range(1, len(NAMES))}
    locations = b"".join(field(4, field(1, 300 + n) + field(3, 77) + line[n]) for n in (1, 2, 3))
    locations += field(4, field(1, 900) + line[4] + line[2])
    fixed = varint(9 << 3 | 1) + bytes(8)
    # Innermost location first. A sample with one location may be written without packing.
    samples = sample(6, 303, 301) + sample(3, 900, 301) + field(2, field(1, 301) + field(2, 1))
    return gzip.compress(samples + locations + functions + fixed + strings)


def test_the_stacks_of_a_profile_are_read_with_inlined_functions() -> None:
    run, extender, score, read = NAMES[1:]
    assert [(list(stack), count) for stack, count in go_profile.stacks(profile())] == [
        ([run, score], 6), ([run, extender, read], 3), ([run], 1),
    ]  # fmt: skip


def test_the_share_of_a_function_has_its_callees_once() -> None:
    root = go_profile.flame(go_profile.stacks(profile()))
    assert root.samples == 10
    assert go_profile.share(root, "HTTPExtender") == 0.3
    assert go_profile.share(root, "main.run") == 1.0
    assert go_profile.share(root, "nothing") == 0.0


def test_each_frame_of_the_picture_is_as_wide_as_its_share() -> None:
    root = go_profile.flame(go_profile.stacks(profile()))
    image = ElementTree.fromstring(go_profile.picture(root, "a & b", "HTTPExtender"))  # noqa: S314 - our own text
    space = "{http://www.w3.org/2000/svg}"
    found = {}
    for group in image.iter(f"{space}g"):
        title, rect = group.find(f"{space}title"), group.find(f"{space}rect")
        assert title is not None
        assert rect is not None
        found[(title.text or "").partition(":")[0]] = float(rect.attrib["width"]), rect.attrib["fill"]
    blue, orange = found["net.read"][1], found["main.run"][1]
    assert blue != orange
    assert {name: wide for name, (wide, _) in found.items()} == {
        "all": 1200, "main.run": 1200, "sched.score": 720, "sched.(*HTTPExtender).Filter": 360, "net.read": 360,
    }  # fmt: skip
    assert found["sched.(*HTTPExtender).Filter"][1] == blue
