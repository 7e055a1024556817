"""The models of cards by their PCI ids, as people name them.

The ids are facts of these sources: libdrm's data/amdgpu.ids (device and revision) and pci.ids for AMD's cards; for
Hygon's the table of devices in its users' guides to the driver, and the targets of its compiler. A name with slashes
stands for models that the ids do not distinguish.
"""

from collections.abc import Iterator, Mapping

AMD, HYGON = 0x1002, 0x1D94

# By device; then by device and revision, which is more exact.
_AMD: Mapping[int, str] = {
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
}
_AMD_REVISIONS: Mapping[tuple[int, int], str] = {
    (0x66A1, 0x06): "Radeon Pro VII",
    (0x73BF, 0xC0): "RX 6900 XT",
    (0x73BF, 0xC1): "RX 6800 XT",
    (0x73BF, 0xC3): "RX 6800",
    (0x744C, 0xC8): "RX 7900 XTX",
    (0x744C, 0xCC): "RX 7900 XT",
    (0x744C, 0xCE): "RX 7900 GRE",
}
_HYGON: Mapping[int, str] = {
    0x54B7: "Z100",
    0x55B7: "Z100L",
    0x62B7: "K100",
    0x6210: "K100-AI",
    0x6211: "K100-AI-ECO",
    0x6320: "BW1000/BW150",
    0x6370: "BW100",
    0x6430: "BW1100",
}
# By `gfx_target_version` of the KFD topology: 90306 is gfx936. 90006 is Z100's and Z100L's.
_HYGON_TARGETS: Mapping[int, str] = {
    90006: "Z100/Z100L",
    90206: "K100",
    90208: "K100-AI",
    90306: "BW1000/BW150",
}
# The text that newer drivers give in place of a chip's name.
NO_NAME = "ip discovery"


def known(vendor: int, device: int, revision: int | None) -> str:
    """The model with these PCI ids; empty if it is not in the tables. A `revision` of None is not known."""
    if vendor == HYGON:
        return _HYGON.get(device, "")
    if vendor != AMD:
        return ""
    exact = None if revision is None else _AMD_REVISIONS.get((device, revision))
    return exact or _AMD.get(device, "")


def listed(vendor: int) -> Iterator[tuple[int, int | None, str]]:
    """Device, revision and name of each model of this PCI vendor in the tables; a revision of None stands for all."""
    if vendor == HYGON:
        yield from ((device, None, name) for device, name in _HYGON.items())
    elif vendor == AMD:
        yield from ((device, None, name) for device, name in _AMD.items())
        yield from ((device, revision, name) for (device, revision), name in _AMD_REVISIONS.items())


def by_target(vendor: int, version: int) -> str:
    """A name made of a `gfx_target_version`; empty for a version of 0, which names no target."""
    if vendor == HYGON and version in _HYGON_TARGETS:
        return _HYGON_TARGETS[version]
    # The stepping is a hexadecimal digit in the compiler's names: 90010 is gfx90a.
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}" if version else ""
