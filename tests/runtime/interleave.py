"""A program that makes, shares, closes and copies card memory at random, and looks after each step whether what the
region charges equals what the driver's books hold: `interleave SEED STEPS GPU_ID REGION BOOKS`, with the library.
"""

import contextlib
import errno
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

from tests.runtime import gem, kfd
from vgpu_runtime import region

PAGE = 4096


class Program:
    """A program's KFD handles, open render nodes with their descriptors and handles, and DMA-bufs."""

    def __init__(self, rng: random.Random, gpu_id: int, region_path: Path, books: Path) -> None:
        self.rng, self.gpu_id, self.region, self.books = rng, gpu_id, region_path, books
        self.buffers: list[int] = []
        self.nodes: list[tuple[list[int], set[int]]] = []
        self.dmabufs: list[int] = []
        self.refused = 0
        kfd.use(gpu_id)
        kfd.available(gpu_id)  # the driver writes its books when it is asked

    def check(self) -> None:
        charged = sum(region.read(self.region, clock=lambda: 0.0).used_bytes)
        held = int(self.books.read_text())
        assert charged == held, f"charged {charged >> 12} pages, held {held >> 12}"

    def step(self) -> None:
        actions = [
            self.allocate, self.free, self.open, self.close, self.copy, self.create, self.create, self.let_go,
            self.export_buffer, self.export_handle, self.close_dmabuf, self.copy_dmabuf,
            self.import_buffer, self.import_handle, self.replace, self.fork,
        ]  # fmt: skip
        with contextlib.suppress(IndexError):  # nothing there to choose from
            self.rng.choice(actions)()

    def size(self) -> int:
        return self.rng.choice([1, PAGE - 1, PAGE, 5 * PAGE, 100_000 * PAGE])

    def pop(self, things: list[int]) -> int:
        things.remove(thing := self.rng.choice(things))
        return thing

    def attempt(self, action: Callable[[], int]) -> int | None:
        try:
            return action()
        except kfd.KfdError as error:
            if error.errno != errno.ENOMEM:
                raise
            self.refused += 1
            return None

    def allocate(self) -> None:
        handle = self.attempt(lambda: kfd.alloc(self.gpu_id, -(-self.size() // PAGE) * PAGE))
        if handle is not None:
            self.buffers.append(handle)

    def free(self) -> None:
        kfd.free(self.pop(self.buffers))

    def open(self) -> None:
        if len(self.nodes) < 6:
            self.nodes.append(([gem.node()], set()))

    def close(self) -> None:
        node = self.rng.choice(self.nodes)
        os.close(self.pop(node[0]))
        if not node[0]:
            self.nodes.remove(node)

    def copy(self) -> None:
        descriptors, _ = self.rng.choice(self.nodes)
        if len(descriptors) < 4:
            descriptors.append(os.dup(self.rng.choice(descriptors)))

    def create(self) -> None:
        descriptors, handles = self.rng.choice(self.nodes)
        handle = self.attempt(lambda: gem.create(self.rng.choice(descriptors), self.size()))
        if handle is not None:
            handles.add(handle)

    def let_go(self) -> None:
        descriptors, handles = self.rng.choice(self.nodes)
        handle = self.rng.choice(sorted(handles))
        handles.remove(handle)
        gem.close(self.rng.choice(descriptors), handle)

    def export_buffer(self) -> None:
        if len(self.dmabufs) < 8:
            self.dmabufs.append(kfd.export(self.rng.choice(self.buffers)))

    def export_handle(self) -> None:
        descriptors, handles = self.rng.choice(self.nodes)
        if len(self.dmabufs) < 8:
            self.dmabufs.append(gem.export(descriptors[0], self.rng.choice(sorted(handles))))

    def close_dmabuf(self) -> None:
        os.close(self.pop(self.dmabufs))

    def copy_dmabuf(self) -> None:
        if len(self.dmabufs) < 8:
            self.dmabufs.append(os.dup(self.rng.choice(self.dmabufs)))

    def import_buffer(self) -> None:
        self.buffers.append(kfd.take(self.gpu_id, self.rng.choice(self.dmabufs)))

    def import_handle(self) -> None:
        descriptors, handles = self.rng.choice(self.nodes)
        handles.add(gem.take(self.rng.choice(descriptors), self.rng.choice(self.dmabufs)))

    def replace(self) -> None:
        """Close a descriptor unseen, by another that takes its number; the next look at the card notices."""
        things = self.rng.choice([self.dmabufs, *(node[0] for node in self.nodes)])
        closed = self.pop(things)
        os.dup2(0, closed)
        os.close(closed)
        self.nodes = [node for node in self.nodes if node[0]]
        kfd.available(self.gpu_id)

    def fork(self) -> None:
        """A child makes memory of its own while its copy of every descriptor keeps what its parent closes."""
        if self.rng.random() < 0.7:
            return
        ready, say = os.pipe()
        go, end = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(end)
            for fd in self.dmabufs:
                os.close(fd)
            kfd.use(self.gpu_id)
            self.attempt(lambda: gem.create(gem.node(), self.size()))
            self.attempt(lambda: kfd.alloc(self.gpu_id, 7 * PAGE))
            self.check()
            os.write(say, b"1")
            os.read(go, 1)
            os._exit(0)
        os.close(say)
        assert os.read(ready, 1)
        for fd in (ready, go):
            os.close(fd)
        if self.nodes:
            self.close()
        self.check()
        os.close(end)
        assert os.waitpid(child, 0)[1] == 0
        kfd.available(self.gpu_id)


def main() -> None:
    seed, steps, gpu_id = (int(argument) for argument in sys.argv[1:4])
    program = Program(random.Random(seed), gpu_id, Path(sys.argv[4]), Path(sys.argv[5]))
    for step in range(steps):
        try:
            program.step()
            program.check()
        except AssertionError as error:
            sys.exit(f"seed {seed}, step {step}: {error}")
    print(f"steps {steps}, refused {program.refused}")


main()
