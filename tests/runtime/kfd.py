"""KFD calls through the C library's `ioctl`, for a Python program with the library preloaded.

They go to the stub driver's device until `use` has opened those of a simulated machine.
"""

import ctypes
import os
from functools import cache

VRAM = 1
COMPUTE, SDMA, COMPUTE_AQL = 0, 1, 2

device = -1

libc = ctypes.CDLL(None, use_errno=True)


class KfdError(OSError):
    pass


@cache
def layout(fields: str) -> type[ctypes.Structure]:
    """The structure of `fields` ("name:bits …")."""
    types = {"64": ctypes.c_uint64, "32": ctypes.c_uint32}
    names = [field.split(":") for field in fields.split()]
    return type("Arguments", (ctypes.Structure,), {"_fields_": [(name, types[bits]) for name, bits in names]})


def request(number: int, size: int, letter: int = ord("K"), direction: int = 3) -> int:
    return direction << 30 | size << 16 | letter << 8 | number


def send(code: int, arguments: object) -> None:
    """Send a request as it is, with the structure or at the address."""
    if libc.ioctl(device, ctypes.c_ulong(code), arguments):
        raise KfdError(ctypes.get_errno(), "refused")


def call(number: int, fields: str, *values: object) -> ctypes.Structure:
    """Send request `number` with a structure of `fields` and return it as the driver left it."""
    arguments = layout(fields)(*values)
    send(request(number, ctypes.sizeof(arguments)), ctypes.byref(arguments))
    return arguments


def use(gpu_id: int, minor: int = 128) -> None:
    """Open the devices, and take the card into use."""
    global device
    device = os.open("/dev/kfd", os.O_RDWR)
    call(0x15, "drm_fd:32 gpu_id:32", os.open(f"/dev/dri/renderD{minor}", os.O_RDWR), gpu_id)


def alloc(gpu_id: int, size: int, flags: int = VRAM) -> int:
    fields = "va:64 size:64 handle:64 offset:64 gpu_id:32 flags:32"
    return int(call(0x16, fields, 0, size, 0, 0, gpu_id, flags).handle)


def free(handle: int) -> None:
    call(0x17, "handle:64", handle)


def export(handle: int) -> int:
    """A descriptor of the memory's DMA-buf."""
    return int(call(0x24, "handle:64 flags:32 fd:32", handle, os.O_CLOEXEC).fd)


def take(gpu_id: int, dmabuf: int) -> int:
    """A handle of a DMA-buf's memory."""
    return int(call(0x1D, "va:64 handle:64 gpu_id:32 fd:32", 0, 0, gpu_id, dmabuf).handle)


def available(gpu_id: int) -> int:
    return int(call(0x23, "available:64 gpu_id:32 pad:32", 0, gpu_id).available)


def create_queue(gpu_id: int, kind: int = COMPUTE_AQL) -> int:
    fields = (
        "ring:64 wptr:64 rptr:64 doorbell:64 size:32 gpu_id:32 type:32 percent:32 priority:32 queue_id:32"
    )
    rest = " eop:64 eop_size:64 ctx:64 ctx_size:32 stack:32"
    return int(call(0x02, fields + rest, 0, 0, 0, 0, 4096, gpu_id, kind).queue_id)


def destroy_queue(queue_id: int) -> None:
    call(0x03, "queue_id:32 pad:32", queue_id)


def set_mask(queue_id: int, mask: int, bits: int) -> None:
    words = (ctypes.c_uint32 * (bits // 32))(*(mask >> 32 * i & 0xFFFFFFFF for i in range(bits // 32)))
    call(0x1A, "queue_id:32 bits:32 pointer:64", queue_id, bits, ctypes.addressof(words))
