"""Try every way to card memory and to a queue, reached in every way that a program has, against a slice.

`hack/fence-coverage` runs a program for each cell of a table. The row is the call with which the program takes a part
of the card, by real HIP, ROCr and libdrm, or by the kernel's interface alone. The column is the way in which the
program reaches that call (fence/host.c). The program asks for more than its slice has; the records of the simulated
driver show what it got. The words in the cells are explained below the table. `--page` writes the table into
docs/fence.md, where a test compares it.

`--without-hook` runs the table without the agent, and with a library that does not interpose `ioctl`: a cell that is
held even then is not held by the library or the agent. The last line counts the cells that are neither held nor
reported; if there are any, the exit status is 1.
"""

import argparse
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from device_plugin.core.contract.events import Event
from device_plugin.node.checks.kernel_checks import LOOK_SECONDS
from device_plugin.node.checks.unenforced import START_SECONDS, SURE_SECONDS
from device_plugin.node.slices.writable import USAGE
from hack.generate.reference import tables
from tests.node.kfd_tree import KfdTree
from tests.node.looping import Looping
from tests.runtime import slices
from tests.runtime.slices import LIMIT_MIB, SHAPES
from vgpu_runtime import region
from vgpu_runtime.paths import BUILD, SOURCES
from vgpu_runtime.sim import hip, vram

MIB = 1 << 20
# MiB beyond the limit that the library allows for small allocations, which queues need.
RESERVE_MIB = 32
CARD = "hygon-60cu-16gib"
HERE = Path(__file__).parent / "fence"
FLAGS = ("-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror")
NATIVE = SOURCES / "native"
PROBE = SOURCES / "sim/probe"

MEMORY, QUEUE = "memory", "queue"
SECONDS = 60


@dataclass(frozen=True)
class Way:
    """A call that takes memory or a queue (`kind`) of a card; fence/`source`.c has the call."""

    source: str
    call: str
    kind: str


Cell = tuple[Way, str]
"""A row and a column of the table: a call, and the way in which a program reaches it."""

WAYS = (
    Way("hip", "hipMalloc", MEMORY),
    Way("hip", "hipExtMallocWithFlags", MEMORY),
    Way("hip", "hipMallocManaged", MEMORY),
    Way("hip", "hipIpcGetMemHandle", MEMORY),
    Way("hip", "hipStreamCreate", QUEUE),
    Way("hip", "hipExtStreamCreateWithCUMask", QUEUE),
    Way("hsa", "hsa_amd_memory_pool_allocate", MEMORY),
    Way("hsa", "hsa_queue_create", QUEUE),
    Way("hsa", "hsa_amd_queue_cu_set_mask", QUEUE),
    Way("kfd", "ALLOC_MEMORY", MEMORY),
    Way("kfd", "CREATE_QUEUE", QUEUE),
    Way("kfd", "SET_CU_MASK", QUEUE),
    Way("drm", "amdgpu_bo_alloc", MEMORY),
    Way("drm", "amdgpu_bo_export", MEMORY),
    Way("drm", "amdgpu_cs_submit_raw2", QUEUE),
)
REACHES = (
    "linked",
    "dlopen",
    "RTLD_DEEPBIND",
    "dlmopen",
    "plug-in",
    "fork",
    "_Fork",
    "clone",
    "exec",
    "chroot",
    "cleared environment",
    "other letter",
    "raw call",
)
# By column: the library that a user preloads before ours.
PRELOADED = {"other letter": "letter.so", "raw call": "raw.so"}
LINKED = {
    "hip": ("libamdhip64.so.5",),
    "hsa": ("libhsa-runtime64.so.1",),
    "kfd": (),
    "drm": ("libdrm_amdgpu.so.1", "libdrm.so.2"),
}
DRIVER = BUILD / "libsimkfd.so"
POD = "uid-a"
REPORTS = {Event.SLICE_UNENFORCED, Event.CARD_MEMORY_UNACCOUNTED}
CHILDREN = ("fork", "_Fork", "clone")
PARENT_MIB = 768
OPEN = "OPEN"
WORDS = {
    "charged": "it got card memory within its limit, and its usage region says how much it holds.",
    "masked": "it got queues, and each runs on the core groups of its slice alone.",
    "refused": "it got nothing.",
    "reported": "it passed the library, got more than its slice has, and the node's agent finds it by the kernel's"
    " figures once that has lasted 30 s. Work through a render node it finds with the setting `renderWork`.",
    OPEN: "it got more than its slice has, and nothing says so.",
}
PAGE = Path(__file__).parents[2] / "docs/fence.md"


class CellError(RuntimeError):
    """The program of a cell ended before it reported its result."""


@dataclass(frozen=True)
class TrialPrograms:
    """The programs and libraries of all cells: the folder with them, and the folder with the real runtimes."""

    folder: Path
    runtimes: Path
    library: Path
    """libvgpu, linked to the simulated driver."""
    watched: bool
    """True if a node agent checks the kernel's figures."""

    def command(self, way: Way, reach: str) -> Sequence[str | Path]:
        """The command line of a cell's program."""
        host = f"host-{way.source}" if reach == "linked" else "host"
        return self.folder / host, reach, self.folder / f"way-{way.source}.so", way.call


def build(folder: Path, runtimes: Path, *, hook: bool) -> TrialPrograms:
    """Build the programs of all cells into `folder`; without `hook`, no agent checks. Raises CalledProcessError."""

    def cc(target: str, *arguments: str | Path) -> Path:
        subprocess.run(["cc", *FLAGS, "-o", folder / target, *arguments], check=True)
        return folder / target

    shared = ("-shared", "-fPIC", f"-I{HERE}")
    probe = (PROBE / "kfd.c", PROBE / "save_area.c")
    for source, libraries in LINKED.items():
        linked = [f"-L{runtimes}", *(f"-l:{name}" for name in libraries)]
        extra = (*probe, "-D_GNU_SOURCE") if source == "kfd" else ()
        way = cc(
            f"way-{source}.so", *shared, HERE / f"{source}.c", *extra, *linked, "-Wl,--allow-shlib-undefined"
        )
        cc(
            f"host-{source}",
            HERE / "host.c",
            "-Wl,--no-as-needed",
            way,
            "-Wl,-rpath,$ORIGIN,--allow-shlib-undefined",
        )
    cc("host", HERE / "host.c", "-ldl")
    cc("relay.so", *shared, HERE / "relay.c")
    for name in PRELOADED.values():
        cc(name, *shared, HERE / name.replace(".so", ".c"))
    return TrialPrograms(
        folder, runtimes, BUILD / "libvgpu-sim.so" if hook else _without_hook(cc), watched=hook
    )


def _without_hook(cc: Callable[..., Path]) -> Path:
    """Build the library without its `ioctl`, linked to the simulated driver; returns its path."""
    sources = [path for path in NATIVE.glob("*/*.c") if path.name != "hook_ioctl.c"]
    includes = [f"-I{folder}" for folder in (SOURCES / "include", NATIVE / "common", NATIVE / "rocm")]
    script = f"-Wl,--version-script={NATIVE / 'vgpu.map'}"
    driver = ("-Wl,--no-as-needed", "-l:libdl.so.2", f"-L{BUILD}", "-lsimkfd", f"-Wl,-rpath,{BUILD}")
    kind = ("-DVGPU_TEST_BUILD", "-fvisibility=hidden", "-fPIC", "-shared")
    return cc("libvgpu-open.so", *kind, *includes, *sources, script, *driver)


def table(programs: TrialPrograms, folder: Path, reaches: Sequence[str] = REACHES) -> dict[Cell, str]:
    """Run the program of each cell; returns the word for its result, one of WORDS. Raises CellError."""
    cells = [(way, reach) for way in WAYS for reach in reaches]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(cells, pool.map(lambda cell: _cell(programs, folder, *cell), cells), strict=True))


@dataclass(frozen=True)
class CardUseRecord:
    """A program's use of the card in the simulated driver's records: bytes, the masks of each queue, other work.

    `listed` are the bytes that the kernel shows for the process, without memory of render nodes. `charged` are the
    bytes in the slice's usage region.
    """

    used: int
    listed: int
    charged: int
    queues: Sequence[Sequence[int]]
    work: int


def _cell(programs: TrialPrograms, folder: Path, way: Way, reach: str) -> str:
    with tempfile.TemporaryDirectory(dir=folder) as machine, tempfile.TemporaryDirectory(dir=folder) as files:
        card = SHAPES[CARD]
        slice_ = slices.make(Path(machine), BUILD, programs.runtimes, card, slices.sizes(card)[1])
        for name in ("vgpu.conf", "usage"):  # in a separate folder, which a program in a chroot does not see
            (slice_.folder / name).rename(Path(files) / name)
        (root := Path(machine) / "root").mkdir()
        own = [programs.folder / PRELOADED[reach]] if reach in PRELOADED else []
        environment = {
            "LD_PRELOAD": ":".join(map(str, [*own, programs.library, DRIVER])),
            "FENCE_DRIVER": str(DRIVER),
            "VGPU_TEST_FOLDER": files,
            "FENCE_ROOT": str(root),
        }
        with subprocess.Popen(
            programs.command(way, reach),
            env=slice_.environment | environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            taken = next(iter(process.stdout or ()), "")
            used = vram.used(slice_.folder / "sim")[0]
            books = CardUseRecord(
                used,
                0 if way.source == "drm" else used,
                region.read(Path(files) / "usage").used_bytes[0],
                list(slice_.queue_masks().values()),
                len(slice_.calls("submit")),
            )
            word = _word(way, books, slice_.grant, PARENT_MIB * MIB if reach in CHILDREN else 0)
            if word == OPEN and programs.watched and _reported(Path(files), process.pid, books):
                word = "reported"
            _, errors = process.communicate(timeout=SECONDS)
        if not taken:
            raise CellError(f"{way.call}, {reach}: the program died (status {process.returncode}): {errors}")
        return word


def _word(way: Way, books: CardUseRecord, grant: int, before: int) -> str:
    """The word for a program's use of the card in a slice with the mask `grant`.

    `before` are the bytes that the program's parent had taken.
    """
    if way.kind == QUEUE:
        held = all(queue and not queue[-1] & ~grant for queue in books.queues)
        return OPEN if books.work or not held else "masked" if books.queues else "refused"
    if books.used > (LIMIT_MIB + RESERVE_MIB) * MIB or books.used != books.charged:
        return OPEN
    return "charged" if books.used > before else "refused"


def _reported(files: Path, process: int, books: CardUseRecord) -> bool:
    """True if a node agent posts an event about this use of the card after it has lasted 30 s."""
    agent = Looping(files).start()
    kernel, card = KfdTree(agent.parts.machine), next(iter(agent.parts.cards().values()))
    kernel.folder.mkdir(parents=True)
    usage = agent.parts.writable.path((POD, "main"), USAGE)
    usage.unlink()
    usage.hardlink_to(files / "usage")
    agent.check_kernel(START_SECONDS)
    agent.host.mounted[POD] = {process: ""}
    kernel.use(process, card, books.listed // MIB, len(books.queues))
    in_use = agent.parts.machine / f"sys/bus/pci/devices/{card.card.pci}/mem_info_vram_used"
    in_use.unlink(missing_ok=True)
    in_use.write_text(f"{books.used}\n")
    agent.host.opened[process] = [f"drm-pdev:\t{card.card.pci}\ndrm-engine-compute:\t{books.work} ns\n"]
    agent.check_kernel(SURE_SECONDS + LOOK_SECONDS)
    return any(reason.split()[0] in REPORTS for reason, _ in agent.peer.events)


def text(found: Mapping[Cell, str]) -> str:
    """The table as text for a terminal."""
    lines = [f"{'':30}" + "".join(f"{reach:>14.13}" for reach in REACHES)]
    lines += [f"{way.call:30}" + "".join(f"{found[way, reach]:>14}" for reach in REACHES) for way in WAYS]
    return "\n".join([*lines, summary(found)])


def page(found: Mapping[Cell, str]) -> str:
    """The text of docs/fence.md."""
    rows = ((f"`{way.call}`", *(found[way, reach] for reach in REACHES)) for way in WAYS)
    return (
        "\n\n".join(
            (
                "# Ways to a card",
                "Written by `hack/fence-coverage --page` from what it saw: run that, do not change this page.",
                "A program in a slice tries to take more than its slice has. Each row is a call that takes card"
                " memory or a queue: of HIP 5.2.3, of HSA (ROCr), of the kernel's interface, of libdrm. Each column is"
                " a way in which a program comes to that call. The simulated driver's own records say what it got.",
                tables.table(("call", *REACHES), rows),
                "\n".join(f"- `{word}`: {meaning}" for word, meaning in WORDS.items()),
                f"{summary(found).capitalize()}.",
            )
        )
        + "\n"
    )


def summary(found: Mapping[Cell, str]) -> str:
    """A line with the number of cells, and the number of open cells."""
    return f"cells {len(found)}, not held and not reported: {sum(word == OPEN for word in found.values())}"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="hack/fence-coverage", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument(
        "--without-hook", action="store_true", help="take the library's ioctl out: cells become OPEN"
    )
    kind.add_argument("--page", action="store_true", help="write docs/fence.md")
    arguments = parser.parse_args()
    logging.disable()  # hides the agent's log
    subprocess.run(["make", "--no-print-directory", "-C", SOURCES], check=True)
    with tempfile.TemporaryDirectory() as folder:
        programs = build(Path(folder), hip.ensure(hip.default_cache()), hook=not arguments.without_hook)
        found = table(programs, Path(folder))
    if arguments.page:
        PAGE.write_text(page(found), encoding="utf-8")
    print(text(found))
    return 1 if OPEN in found.values() else 0


if __name__ == "__main__":
    sys.exit(main())
