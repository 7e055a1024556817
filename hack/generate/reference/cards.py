"""The reference page of the cards that vgpu serves, from the tables of their models."""

from collections.abc import Iterator
from dataclasses import dataclass

from device_plugin.node.vendors import models
from device_plugin.node.vendors.hygon import Hygon
from device_plugin.node.vendors.rocm import Rocm
from hack.generate.reference import tables
from vgpu_runtime.sim.cards import PRESETS


@dataclass(frozen=True)
class Family:
    """The cards of one PCI vendor, and the software that they need."""

    vendor: int
    name: str
    resource: str
    driver: str
    image: str
    slices: int


FAMILIES = (
    Family(
        models.HYGON, "Hygon DCU, HCU", "`hygon.com/dcu` or `hygon.com/hcu`",
        "Hygon's, with `/dev/kfd` and `/dev/mkfd`", "DTK", Hygon.MAX_SLICES,
    ),
    Family(
        models.AMD, "AMD Instinct, Radeon", "`amd.com/gpu` ([component `amd`](../install.md))",
        "amdgpu, with `/dev/kfd`", "ROCm", Rocm.MAX_SLICES,
    ),
)  # fmt: skip


def page() -> str:
    """Every family and every model, and on what each was tried."""
    return tables.page(
        "Supported cards",
        "`device_plugin/node/vendors/models.py` and `hack/generate/reference/cards.py`",
        "**No real card was tried yet.** A model with `simulated` below was tried in the simulated driver"
        " ([tried, and not tried](../tried.md)). If you have a card, please run [`hack/gpu-check`](../gpu-check.md) and"
        " send its output.",
        tables.table(
            (
                "family",
                "resource",
                "driver on the node",
                "in the image",
                "most slices of a card",
                "models tried",
            ),
            _families(),
        ),
        "A card of these families that the tables do not name is served too: it has the name that its driver gives"
        " ([requests](../requests.md)). NVIDIA's cards are not served.",
        "Hygon's own sharing needs driver 6.2.26 and DTK 24.04, or newer, as its"
        " [k8s-hcu-device-plugin](https://github.com/HYGON-AI/k8s-hcu-device-plugin) says. vgpu writes the same kind of"
        " file (`vdev<N>.conf`) and calls none of Hygon's libraries. The GPUStack project has measured such files on BW"
        " cards; ours were not tried there.",
        *(f"## {family.name}\n\n{_models(family)}" for family in FAMILIES),
    )


def _families() -> Iterator[tuple[str, ...]]:
    for family in FAMILIES:
        names = [name for *_, name in _by_name(family)]
        tried = sum(1 for _, tried, _ in _by_name(family) if tried)
        yield (
            family.name, family.resource, family.driver, family.image, str(family.slices),
            f"{tried} of {len(names)}, simulated",
        )  # fmt: skip


def _models(family: Family) -> str:
    rows = ((name, ids, "simulated" if tried else "not tried") for ids, tried, name in _by_name(family))
    return tables.table(("model", "PCI device", "tried on"), rows)


def _by_name(family: Family) -> Iterator[tuple[str, bool, str]]:
    """PCI ids, whether one of them is simulated, and the name of each model."""
    simulated = {(card.vendor, card.device) for card in PRESETS.values()}
    found: dict[str, list[str]] = {}
    tried: set[str] = set()
    for device, revision, name in models.listed(family.vendor):
        found.setdefault(name, []).append(
            f"`{family.vendor:04x}:{device:04x}`" + ("" if revision is None else f" revision {revision:02x}")
        )
        if revision is None and (family.vendor, device) in simulated:
            tried.add(name)
    for name, ids in found.items():
        yield ", ".join(ids), name in tried, name
