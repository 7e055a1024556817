"""The loads of a node's cards, from its agent's /metrics.

Whoever answers is not trusted: the whole exchange ends at a deadline, however the bytes are spread, and only so many of
them are read. HTTP/1.0 has no chunks: what follows the headers is the text.
"""

import re
import socket
import time
from collections.abc import Mapping

from device_plugin.core.annotations import MAX_CARDS
from device_plugin.core.loads import Load

SECONDS = 1.0
MOST_BYTES = 1 << 20
PIECE = 1 << 16
_TOTAL, _USED, _BUSY = "vgpu_card_memory_bytes", "vgpu_card_memory_used_bytes", "vgpu_card_busy_ratio"
_SAMPLE = re.compile(
    rf'^({_TOTAL}|{_USED}|{_BUSY})\{{(?:[a-z]+="[^"\\\n]*",){{0,8}}card="([^"\\\n]+)"[^}}\n]*\}} ([0-9.e+-]{{1,30}})$',
    re.MULTILINE,
)


def read_loads(address: str) -> Mapping[str, Load]:
    """By card uuid, of those whose driver says how much memory is in use; `address` is host:port.

    Raises OSError if the agent cannot be reached in time, ValueError for an answer that is none.
    """
    head, gap, body = _exchange(address).partition(b"\r\n\r\n")
    status = head.split(b"\r\n", 1)[0].split(b" ")
    if not gap or not status[0].startswith(b"HTTP/1.") or status[1:2] != [b"200"]:
        raise ValueError(f"the answer begins {head[:40]!r}")
    return _loads(body.decode(errors="replace"))


def _exchange(address: str) -> bytes:
    host, _, port = address.rpartition(":")
    deadline = time.monotonic() + SECONDS
    with socket.create_connection((host.strip("[]"), int(port)), SECONDS) as connection:
        connection.sendall(f"GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n".encode())
        found = bytearray()
        while len(found) <= MOST_BYTES:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"no whole answer within {SECONDS:g} s")
            connection.settimeout(left)
            piece = connection.recv(PIECE)
            if not piece:
                return bytes(found)
            found += piece
    raise ValueError(f"the answer is longer than {MOST_BYTES} bytes")


def _loads(text: str) -> Mapping[str, Load]:
    values: dict[str, dict[str, float]] = {_TOTAL: {}, _USED: {}, _BUSY: {}}
    for name, card, value in _SAMPLE.findall(text):
        if len(values[name]) < MAX_CARDS:
            values[name][card] = float(value)
    return {
        card: Load(_share(used / values[_TOTAL][card]), _busy(values[_BUSY].get(card)))
        for card, used in values[_USED].items()
        if values[_TOTAL].get(card, 0) > 0
    }


def _busy(ratio: float | None) -> float | None:
    return None if ratio is None else _share(ratio)


def _share(ratio: float) -> float:
    return min(1.0, max(0.0, ratio))
