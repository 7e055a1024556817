"""The reference page of the supported cards, generated from the tables of models."""

from collections.abc import Iterator

from device_plugin.node.vendors.families import FAMILIES, Family
from device_plugin.node.vendors.rocm import KERNEL_QUEUES, MAX_SLICES_FEW_QUEUES
from hack.generate.reference import tables
from vgpu_runtime.sim.cards import PRESETS


def page() -> str:
    """The page: every card family and every model, and whether it was tried."""
    return tables.page(
        "Supported cards",
        "`device_plugin/node/vendors/` and `hack/generate/reference/cards.py`",
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
        f"A card of gfx12 (RX 9060, RX 9070) has at most {MAX_SLICES_FEW_QUEUES} slices: it has four slots for compute"
        " queues of programs, and HAMi measured that the speed of more than two sharers collapses. On a node whose"
        f" amdgpu has the parameter `num_kcq=0` (`/{KERNEL_QUEUES}`) it has as many slices as AMD's other cards.",
        "Hygon's own sharing needs driver 6.2.26 and DTK 24.04, or newer, as its"
        " [k8s-hcu-device-plugin](https://github.com/HYGON-AI/k8s-hcu-device-plugin) says. vgpu writes the same kind of"
        " file (`vdev<N>.conf`) and calls none of Hygon's libraries. The GPUStack project has measured such files on BW"
        " cards; ours were not tried there.",
        *(f"## {family.ABOUT.name}\n\n{_models(family)}" for family in FAMILIES),
    )


def _families() -> Iterator[tuple[str, ...]]:
    for family in FAMILIES:
        about, names = family.ABOUT, [name for *_, name in _by_name(family)]
        tried = sum(1 for _, tried, _ in _by_name(family) if tried)
        yield (
            about.name, about.resource, about.driver, about.image, str(family.MAX_SLICES),
            f"{tried} of {len(names)}, simulated",
        )  # fmt: skip


def _models(family: Family) -> str:
    rows = ((name, ids, "simulated" if tried else "not tried") for ids, tried, name in _by_name(family))
    return tables.table(("model", "PCI device", "tried on"), rows)


def _by_name(family: Family) -> Iterator[tuple[str, bool, str]]:
    """The models of a family, each as (PCI ids, true if there is a simulated card of the model, name)."""
    simulated = {(card.vendor, card.device) for card in PRESETS.values()}
    found: dict[str, list[str]] = {}
    tried: set[str] = set()
    for device, revision, name in family.MODELS.listed():
        found.setdefault(name, []).append(
            f"`{family.PCI_VENDOR:04x}:{device:04x}`"
            + ("" if revision is None else f" revision {revision:02x}")
        )
        if revision is None and (family.PCI_VENDOR, device) in simulated:
            tried.add(name)
    for name, ids in found.items():
        yield ", ".join(ids), name in tried, name
