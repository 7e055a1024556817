"""A sum over thousands of names in a JSON list that does not depend on their order, without reading the names."""

import secrets

import numpy as np
from numpy.typing import NDArray

WORD = 8
# The most words of a name of an object, which has at most 253 characters.
_MOST_WORDS = 32
# Odd factors of this process: nobody can choose names that have the sum of others.
_FACTORS = np.frombuffer(secrets.token_bytes(WORD * (_MOST_WORDS + 2)), dtype=np.uint64) | np.uint64(1)
_HALF = np.uint64(32)
# By number: the mask of as many bytes at the end of a word.
_LAST = np.array([(1 << 64) - (1 << 8 * (WORD - n)) for n in range(WORD + 1)], dtype=np.uint64)
_QUOTE = ord('"')

Words = NDArray[np.uint64]
Lengths = NDArray[np.int64]


def name_sum(text: bytes) -> int | None:
    r"""The sum modulo 2**64 of a hash of each name in `text`, a list of names; None if it has an unusual form.

    Usual is `["node-1","node-2"]`, as Go writes it, without spaces and without a character that is written with a \.
    """
    if not text.startswith(b'["') or b'"' not in text[2:] or b"\\" in text:
        return None
    found = _of_one_length(text) or _of_any_length(text)
    if found is None:
        return None
    words, length = found
    hashed = np.ones(len(words), dtype=np.uint64) + length.astype(np.uint64)
    for number in range(words.shape[1]):
        hashed ^= words[:, -1 - number]
        _mix(hashed, _FACTORS[number])
    for factor in _FACTORS[-2:]:
        _mix(hashed, factor)
    return int(hashed.sum())


def _mix(hashed: Words, factor: np.uint64) -> None:
    """Spread each bit over the others: a product alone carries none to the lower ones."""
    hashed ^= hashed >> _HALF
    hashed *= factor


def _of_one_length(text: bytes) -> tuple[Words, Lengths] | None:
    """The words and the length of the names if all are of one length; None if they are not.

    Each name is at the end of its words, after zeros.
    """
    step = text.index(b'"', 2) + 1
    count, rest = divmod(len(text) - 1, step)
    length = step - 3
    if rest or not 0 < length <= WORD * _MOST_WORDS:
        return None
    names = np.frombuffer(text, dtype=np.uint8, offset=1).reshape(count, step)
    quotes = names == _QUOTE
    if np.count_nonzero(quotes) != 2 * count or not (quotes[:, 0].all() and quotes[:, -2].all()):
        return None
    width = -(-length // WORD) * WORD
    words = np.zeros((count, width), dtype=np.uint8)
    words[:, width - length :] = names[:, 1:-2]
    return words.view("<u8"), np.array([length])


def _of_any_length(text: bytes) -> tuple[Words, Lengths] | None:
    """The words and the length of each name; None if it is no plain list of names."""
    quotes = np.flatnonzero(np.frombuffer(text, dtype=np.uint8) == _QUOTE)
    ends = quotes[1::2]
    length = ends - quotes[::2][: len(ends)] - 1
    most = int(length.max(initial=1))
    plain = len(quotes) % 2 == 0 and len(text) == int(length.sum()) + 3 * len(ends) + 1
    if not plain or most > WORD * _MOST_WORDS:
        return None
    width = -(-most // WORD) * WORD
    # The words that end where a name ends, of the windows of which one begins at each byte.
    windows = np.ndarray((len(text) + 1,), f"V{width}", bytes(width) + text, strides=(1,))
    words = windows[ends].view("<u8").reshape(-1, width // WORD)
    first = np.arange(width, 0, -WORD)
    words &= _LAST[np.clip(length[:, None] - first + WORD, 0, WORD)]
    return words, length
