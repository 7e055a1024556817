"""Work through render nodes, from the kernel's texts on open files."""

import pytest

from device_plugin.node.render_work import render_work

CARD = "0000:19:00.0"
# As Linux 6.12 writes it of a render node.
RENDER_NODE = f"""pos:	0
flags:	02100002
mnt_id:	1164
ino:	527
drm-driver:	amdgpu
drm-client-id:	68
drm-pdev:	{CARD}
pasid:	32785
drm-memory-vram:	1048576 KiB
drm-engine-gfx:	5000000 ns
drm-engine-compute:	7 ns
drm-engine-dma:	900 ns
drm-engine-dec:	900 ns
"""


def test_the_work_of_compute_units_is_added_up_by_card() -> None:
    other = RENDER_NODE.replace(CARD, "0000:1a:00.0").replace("5000000", "1")
    assert render_work([RENDER_NODE, "pos:	0\nflags:	0100000\n", other, RENDER_NODE]) == {
        CARD: 10_000_014,
        "0000:1a:00.0": 8,
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "drm-engine-gfx:	5 ns\n",
        f"drm-pdev:	{CARD}\ndrm-engine-gfx:	-5 ns\ndrm-engine-compute:	{'9' * 21} ns\n",
    ],
)
def test_what_is_no_figure_is_no_work(text: str) -> None:
    assert not any(render_work([text]).values())
