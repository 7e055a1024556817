"""Reads a CPU profile of a Go program, and draws it as a flame picture.

The profile is a gzipped message of github.com/google/pprof/proto/profile.proto; only the fields that a flame needs are
read. A frame's width is its share of the samples, its callees stand on it.
"""

import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape

# Numbers of fields: of Profile, Sample, Location, Line and Function.
_SAMPLE, _LOCATION, _FUNCTION, _STRING = 2, 4, 5, 6
_SAMPLE_LOCATION, _SAMPLE_VALUE = 1, 2
_ID, _LOCATION_LINE, _LINE_FUNCTION, _FUNCTION_NAME = 1, 4, 1, 2
# Kinds of fields, and the bytes of those with a fixed length.
_VARINT, _BYTES = 0, 2
_FIXED = {1: 8, 5: 4}

# Of the picture, in pixels; a frame that is narrower is left out.
WIDTH, ROW, NARROWEST, LETTER = 1200, 16, 1.5, 6.2


@dataclass(slots=True)
class Frame:
    """A function with the samples in it and in its callees, by their names."""

    name: str
    samples: int = 0
    callees: dict[str, "Frame"] = field(default_factory=dict)

    def depth(self, least: float) -> int:
        """The number of levels, of frames with at least `least` samples."""
        return 1 + max(
            (each.depth(least) for each in self.callees.values() if each.samples >= least), default=0
        )


def stacks(profile: bytes) -> Iterator[tuple[Sequence[str], int]]:
    """Each stack of functions in the profile, the outermost first, and its number of samples."""
    strings, names = list[str](), dict[int, int]()
    lines, samples = dict[int, list[int]](), list[tuple[list[int], int]]()
    for number, _, message in _fields(gzip.decompress(profile)):
        if number == _STRING:
            strings.append(message.decode())
        elif number == _FUNCTION:
            names[_number(message, _ID)] = _number(message, _FUNCTION_NAME)
        elif number == _LOCATION:
            found = [line for key, _, line in _fields(message) if key == _LOCATION_LINE]
            lines[_number(message, _ID)] = [_number(line, _LINE_FUNCTION) for line in found]
        elif number == _SAMPLE:
            samples.append((_numbers(message, _SAMPLE_LOCATION), _numbers(message, _SAMPLE_VALUE)[0]))
    for places, count in samples:
        # The innermost function is first, and within a location the innermost of inlined functions.
        functions = [each for place in places for each in lines[place]]
        yield [strings[names[each]] for each in reversed(functions)], count


def flame(found: Iterator[tuple[Sequence[str], int]]) -> Frame:
    """The frames of all stacks, below one root."""
    root = Frame("all")
    for stack, samples in found:
        at = root
        at.samples += samples
        for name in stack:
            at = at.callees.setdefault(name, Frame(name))
            at.samples += samples
    return root


def share(found: Frame, name: str) -> float:
    """The share of samples in functions whose names contain `name`, callees included."""

    def inside(frame: Frame) -> int:
        return frame.samples if name in frame.name else sum(map(inside, frame.callees.values()))

    return inside(found) / max(1, found.samples)


def picture(root: Frame, title: str, marked: str) -> str:
    """The flame as SVG. Frames whose names contain `marked` are blue, with all that they call."""
    least = root.samples * NARROWEST / WIDTH
    height = (root.depth(least) + 2) * ROW
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="monospace"'
        ' font-size="10">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="4" y="12" font-size="12">{escape(title)}</text>',
    ]
    parts += _drawn(root, root, 0.0, height, least, marked, inside=False)
    return "\n".join([*parts, "</svg>\n"])


def _drawn(
    root: Frame, frame: Frame, left: float, bottom: int, least: float, marked: str, *, inside: bool
) -> Iterator[str]:
    inside = inside or marked in frame.name
    wide = WIDTH * frame.samples / root.samples
    short = frame.name.rpartition("/")[2]
    text = escape(short[: int((wide - 4) / LETTER)]) if wide > 5 * LETTER else ""
    fill = "#7aa6d8" if inside else "#e8b06a"
    yield (
        f"<g><title>{escape(frame.name)}: {100 * frame.samples / root.samples:.1f} %</title>"
        f'<rect x="{left:.1f}" y="{bottom - ROW}" width="{wide:.1f}" height="{ROW - 1}" fill="{fill}" stroke="#fff"'
        f' stroke-width="0.3"/><text x="{left + 2:.1f}" y="{bottom - 5}">{text}</text></g>'
    )
    for each in sorted(frame.callees.values(), key=lambda each: each.name):
        if each.samples >= least:
            yield from _drawn(root, each, left, bottom - ROW, least, marked, inside=inside)
        left += WIDTH * each.samples / root.samples


def _fields(message: bytes) -> Iterator[tuple[int, int, bytes]]:
    """The number of each field of a protobuf message, and its value as a number or as bytes."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield tag >> 3, value, b""
            continue
        if kind == _BYTES:
            length, at = _varint(message, at)
        else:
            length = _FIXED[kind]
        yield tag >> 3, 0, message[at : at + length]
        at += length


def _number(message: bytes, number: int) -> int:
    """The value of a field of a message, 0 if it is not there."""
    return next((value for key, value, _ in _fields(message) if key == number), 0)


def _numbers(message: bytes, number: int) -> list[int]:
    """The values of a repeated field of numbers, which may be packed."""
    found = list[int]()
    for key, value, packed in _fields(message):
        if key == number:
            found += list(_packed(packed)) if packed else [value]
    return found


def _packed(numbers: bytes) -> Iterator[int]:
    at = 0
    while at < len(numbers):
        value, at = _varint(numbers, at)
        yield value


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """The number that begins at `at`, and where it ends."""
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
