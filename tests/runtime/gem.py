"""Requests to a card's render node through the C library's `ioctl`, for a Python program with the library preloaded."""

import ctypes
import os

from tests.runtime import kfd

GTT, VRAM = 2, 4
GFX, COMPUTE, DMA = 0, 1, 2


def node(minor: int = 128) -> int:
    """A new open file of the render node."""
    return os.open(f"/dev/dri/renderD{minor}", os.O_RDWR | os.O_CLOEXEC)


def call(fd: int, number: int, fields: str, *values: object, direction: int = 3) -> ctypes.Structure:
    """Send request `number` with a structure of `fields` and return it as the driver left it."""
    arguments = kfd.layout(fields)(*values)
    code = kfd.request(number, ctypes.sizeof(arguments), ord("d"), direction)
    if kfd.libc.ioctl(fd, ctypes.c_ulong(code), ctypes.byref(arguments)):
        raise kfd.KfdError(ctypes.get_errno(), "refused")
    return arguments


def create(fd: int, size: int, domains: int = VRAM) -> int:
    made = call(fd, 0x40, "size:64 align:64 domains:64 flags:64", size, 4096, domains, 0)
    return int(made.size) & 0xFFFFFFFF


def close(fd: int, handle: int) -> None:
    call(fd, 0x09, "handle:32 pad:32", handle, direction=1)


def export(fd: int, handle: int) -> int:
    """A descriptor of the memory's DMA-buf."""
    return int(call(fd, 0x2D, "handle:32 flags:32 fd:32", handle, os.O_CLOEXEC | os.O_RDWR).fd)


def take(fd: int, dmabuf: int) -> int:
    """The handle under which the file has a DMA-buf's memory."""
    return int(call(fd, 0x2E, "handle:32 flags:32 fd:32", 0, 0, dmabuf).handle)


def place(fd: int, handle: int, domains: int) -> None:
    call(fd, 0x50, "handle:32 op:32 value:64", handle, 1, domains)


def info(fd: int, query: int, words: int) -> list[int]:
    """The answer's first 64-bit words."""
    answer = (ctypes.c_uint64 * words)()
    fields = "result:64 size:32 query:32 a:64 b:64"
    call(fd, 0x45, fields, ctypes.addressof(answer), ctypes.sizeof(answer), query, direction=1)
    return list(answer)


def submit(fd: int, engine: int) -> None:
    """Send one buffer of commands to an engine."""
    buffer = kfd.layout("pad:32 flags:32 va:64 bytes:32 ip:32 instance:32 ring:32")(0, 0, 0, 64, engine)
    chunk = kfd.layout("id:32 words:32 data:64")(1, 8, ctypes.addressof(buffer))
    chunks = (ctypes.c_uint64 * 1)(ctypes.addressof(chunk))
    call(fd, 0x44, "context:32 list:32 count:32 flags:32 chunks:64", 1, 0, 1, 0, ctypes.addressof(chunks))
