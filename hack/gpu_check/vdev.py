"""Slices of Hygon's cards that the maker's own runtime and driver limit, because a vdev file describes the slice.

The runtime reads /etc/vdev/docker/vdev<N>.conf in the root of its container. Outside of a container, the folder with
the file is mounted there in a mount namespace of each program, which needs root. SIMKFD_ROOT names the container's root
for the simulated driver.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from hack.gpu_check.cards import Card, cards
from hack.gpu_check.running import ImpossibleError, Running, answer_of, command_of, started
from hack.gpu_check.slices import LIMIT_MIB, Slice, make_slice, quarter

HYGON = "1d94:"
FOLDER = "etc/vdev/docker"
MAKERS_FOLDERS = ("opt/hyhal", "usr/local/hyhal")
SIMULATED_ROOT = "SIMKFD_ROOT"
_WORD = (1 << 64) - 1
_MOUNT = f'mount --bind "$0" /{FOLDER} && exec "$@"'


def text(card: Card, mask: int, *, number: int, device: int, pipe: int) -> str:
    """The text of a vdev file, as the agent writes it (vgpu_runtime/vdev.py)."""
    return (
        f"PciBusId: {card.pci}\ncu_mask: 0x{mask & _WORD:016x}\ncu_mask: 0x{mask >> 64:016x}\n"
        f"cu_count: {bin(mask).count('1')}\nmem: {LIMIT_MIB} MiB\n"
        f"device_id: {device}\nvdev_id: {number}\npipe_id: {pipe}\nenable: 1\n"
    )


@contextlib.contextmanager
def container(base: Slice, name: str, pipe: int, *others: Card) -> Iterator[Slice]:
    """Make a container with a slice of the card of `base` and a slice of each of `others`; yields the first slice.

    All slices have the same `pipe`. For the driver, all programs of the container share these slices, because they read
    the same files. Raises ImpossibleError.
    """
    check(base.card)
    root = base.folder / name / "root"
    slice_ = make_slice(base.card, base.library, base.folder / name, quarter(base.card), root)
    (root / FOLDER).mkdir(parents=True)
    for folder in MAKERS_FOLDERS:
        if (_root() / folder).is_dir():
            (root / folder).parent.mkdir(parents=True, exist_ok=True)
            (root / folder).symlink_to(_root() / folder)
    order = [card.gpu_id for card in cards()]
    for number, card in enumerate((base.card, *others)):
        mask = ((1 << quarter(card)) - 1) << quarter(card)
        content = text(card, mask, number=number, device=order.index(card.gpu_id), pipe=pipe)
        (root / FOLDER / f"vdev{number}.conf").write_text(content)
    with _mount_point():
        yield slice_


def check(card: Card) -> None:
    """Raise ImpossibleError if vdev files cannot be tried on the card, with the reason."""
    if not card.ids.startswith(HYGON):
        raise ImpossibleError("a question of Hygon's cards")
    if not any((_root() / folder).is_dir() for folder in MAKERS_FOLDERS):
        raise ImpossibleError(
            "no /opt/hyhal and no /usr/local/hyhal: the maker's runtime finds no card without it"
        )
    for path in (_root() / FOLDER).parent.glob("vdev*.conf"):
        if card.pci in path.read_text(errors="replace"):
            raise ImpossibleError(f"{path} has a part of the card: cut by `hy-smi virtual`")
    if SIMULATED_ROOT in os.environ:
        return
    if os.geteuid():
        raise ImpossibleError(
            f"needs root: a mount namespace (unshare -m) shows /{FOLDER} to the program alone"
        )
    try:
        done = subprocess.run(["unshare", "--mount", "true"], capture_output=True, text=True, check=False)
    except OSError as error:
        raise ImpossibleError(f"no unshare: {error}") from None
    if done.returncode:
        raise ImpossibleError(f"no mount namespace: {done.stderr.strip()}")


def command(words: str, slice_: Slice, card: Card | None = None) -> list[str]:
    """The command line that runs program.py in the container of a slice, on the slice's card or on `card`."""
    found = command_of(words, card or slice_.card, (card or slice_.card).pci)
    if SIMULATED_ROOT in os.environ:
        return found
    return ["unshare", "--mount", "sh", "-c", _MOUNT, f"{slice_.root}/{FOLDER}", *found]


def ask(
    words: str, slice_: Slice, environment: Mapping[str, str], card: Card | None = None
) -> Mapping[str, float]:
    """Run a command of one step in the container; returns its answer as running.ask does."""
    return answer_of(words, command(words, slice_, card), environment)


def start(
    words: str, slice_: Slice, environment: Mapping[str, str]
) -> contextlib.AbstractContextManager[Running]:
    """Start a program in the container as running.started does."""
    return started(command(words, slice_), environment)


def _root() -> Path:
    """The root of this machine's files."""
    return Path(os.environ.get(SIMULATED_ROOT, "/"))


@contextlib.contextmanager
def _mount_point() -> Iterator[None]:
    """Make the folder for the mount if the machine has none, and remove it at the end of the context."""
    wanted = () if SIMULATED_ROOT in os.environ else (Path("/", FOLDER).parent, Path("/", FOLDER))
    missing = [path for path in wanted if not path.is_dir()]
    try:
        for path in missing:
            path.mkdir()
    except OSError as error:
        raise ImpossibleError(f"no folder to mount on: {error}") from None
    try:
        yield
    finally:
        for path in reversed(missing):
            path.rmdir()
