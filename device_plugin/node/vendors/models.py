"""The models of cards by their PCI ids, as people name them.

AMD's ids are from libdrm's data/amdgpu.ids (device and revision) and from pci.ids. Hygon's are from the table of
devices in its hcu-dcgm, from its users' guides to the driver (which call 54b7 Z100), and from the targets of its
compiler. A name with slashes stands for models that the ids do not distinguish, and BW for all BW models.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

# The text that newer drivers give in place of a chip's name.
NO_NAME = "ip discovery"


@dataclass(frozen=True, slots=True)
class Models:
    """The names of one PCI vendor's card models, in three tables: by device, by device and revision, and by target.

    The table with revisions is more exact than the first. A target is the `gfx_target_version` of the KFD topology:
    90306 is gfx936.
    """

    by_device: Mapping[int, str]
    by_revision: Mapping[tuple[int, int], str] = field(default_factory=dict)
    by_target: Mapping[int, str] = field(default_factory=dict)

    def known(self, device: int, revision: int | None) -> str:
        """The model with these PCI ids; empty if it is not in the tables. `revision` is None if not known."""
        exact = None if revision is None else self.by_revision.get((device, revision))
        return exact or self.by_device.get(device, "")

    def listed(self) -> Iterator[tuple[int, int | None, str]]:
        """Device, revision and name of each model in the tables; a revision of None stands for all."""
        yield from ((device, None, name) for device, name in self.by_device.items())
        yield from ((device, revision, name) for (device, revision), name in self.by_revision.items())

    def of_target(self, version: int) -> str:
        """The model with this `gfx_target_version`; if it is in no table, the compiler's name of the target (gfx90a).

        Empty for 0, which names no target.
        """
        if version in self.by_target:
            return self.by_target[version]
        # The stepping is a hexadecimal digit in the compiler's names: 90010 is gfx90a.
        return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}" if version else ""


AMD = Models(
    {
        0x6860: "MI25",
        0x6864: "MI25",
        0x66A0: "MI50/MI60",
        0x66A1: "MI50/MI60",
        0x66AF: "Radeon VII",
        0x7388: "MI100",
        0x738C: "MI100",
        0x738E: "MI100",
        0x7408: "MI250X",
        0x740C: "MI250/MI250X",
        0x740F: "MI210",
        0x74A0: "MI300A",
        0x74A1: "MI300X",
        0x74A2: "MI308X",
        0x74A5: "MI325X",
        0x74A8: "MI308X",
        0x74A9: "MI300X",
        0x74B5: "MI300X",
        0x74B6: "MI308X",
        0x74B9: "MI325X",
        0x74BD: "MI300X",
        0x75A0: "MI350X",
        0x75A3: "MI355X",
        0x75B0: "MI350X",
        0x75B3: "MI355X",
        0x73A1: "Radeon Pro V620",
        0x73A3: "Radeon Pro W6800",
        0x73A5: "RX 6950 XT",
        0x73AF: "RX 6900 XT",
        0x73BF: "RX 6800/RX 6800 XT/RX 6900 XT",
        0x7448: "Radeon Pro W7900",
        0x744C: "RX 7900 XT/RX 7900 XTX",
        0x745E: "Radeon Pro W7800",
        0x7550: "RX 9070/RX 9070 GRE/RX 9070 XT",
        0x7590: "RX 9060/RX 9060 XT",
    },
    {
        (0x66A1, 0x06): "Radeon Pro VII",
        (0x73BF, 0xC0): "RX 6900 XT",
        (0x73BF, 0xC1): "RX 6800 XT",
        (0x73BF, 0xC3): "RX 6800",
        (0x744C, 0xC8): "RX 7900 XTX",
        (0x744C, 0xCC): "RX 7900 XT",
        (0x744C, 0xCE): "RX 7900 GRE",
        (0x7550, 0xC0): "RX 9070 XT",
        (0x7550, 0xC2): "RX 9070 GRE",
        (0x7550, 0xC3): "RX 9070",
        (0x7590, 0xC0): "RX 9060 XT",
        (0x7590, 0xC7): "RX 9060",
    },
)
HYGON = Models(
    {
        0x51B7: "Z100L",
        0x52B7: "Z100L",
        0x53B7: "Z100L",
        0x54B7: "Z100",
        0x55B7: "Z100L",
        0x56B7: "Z100L",
        0x57B7: "Z100L",
        0x61B7: "K500SM",
        0x6210: "K100_AI",
        0x6211: "K100_LC_E_AI",
        0x6212: "K100_LC_AI",
        0x6213: "K100_AI_i",
        0x62B7: "K100",
        0x62C7: "K100-LC",
        0x6310: "BW200",
        0x6311: "BW200_LC",
        0x631A: "BW1000_H",
        0x6320: "BW150",
        0x6321: "BW100_LC",
        0x632A: "BW151",
        0x6330: "BW500SM",
        0x6360: "BW10",
        0x636A: "BW11",
        0x6370: "BW100",
        0x637A: "BW101",
        0x6423: "BW1500B",
        0x6430: "BW1100",
        0x6431: "BW1000_LC",
        0x6436: "BW3000B",
        0x6437: "BW3000B_LC",
        0x66A1: "WK100",
    },
    by_target={
        90006: "Z100/Z100L",
        90206: "K100",
        90208: "K100_AI",
        90306: "BW",
    },
)
