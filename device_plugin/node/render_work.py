"""Render work: the time that a card has worked for a program through its render node, as the kernel counts it.

Linux, Documentation/gpu/drm-usage-stats.rst: the kernel's text on an open file of a render node names the card, and the
time that each of its engines has worked for that file (/proc/<pid>/fdinfo/<fd>):

    drm-pdev:            0000:19:00.0
    drm-engine-compute:  41187 ns

No mask of compute units holds such work, so the library refuses it to a container that holds a part of the card. A
process that has had such work done there has bypassed the library.
"""

import re
from collections.abc import Iterable, Mapping

# Engines that run programs on compute units; the others copy memory, or decode video.
ENGINES = ("gfx", "compute")
_CARD = re.compile(r"^drm-pdev:\s*(\S{1,32})$", re.MULTILINE)
_WORK = re.compile(rf"^drm-engine-(?:{'|'.join(ENGINES)}):\s*([0-9]{{1,20}}) ns$", re.MULTILINE)


def render_work(files: Iterable[str]) -> Mapping[str, int]:
    """Nanoseconds that compute units have worked for these open files, by PCI address of the card."""
    found: dict[str, int] = {}
    for text in files:
        if card := _CARD.search(text):
            found[card[1]] = found.get(card[1], 0) + sum(int(work) for work in _WORK.findall(text))
    return found
