"""Names of card models, by which a pod chooses cards in its annotation `vgpu.io/card-model`."""

import re
from collections.abc import Mapping
from functools import lru_cache

# The chip names of AMD's driver, each with the card models that have the chip. Earlier agents published chip names
# only, and annotations that name a chip must still match. Source: Linux, drivers/gpu/drm/amd/amdgpu/amdgpu_device.c.
_CHIPS: Mapping[str, tuple[str, ...]] = {
    "vega10": ("MI25",),
    "vega20": ("MI50", "MI60", "Radeon Pro VII", "Radeon VII"),
    "arcturus": ("MI100",),
    "aldebaran": ("MI210", "MI250", "MI250X"),
    "sienna_cichlid": (
        "RX 6800", "RX 6800 XT", "RX 6900 XT", "RX 6950 XT", "Radeon Pro V620", "Radeon Pro W6800",
    ),
}  # fmt: skip
# Words at the beginning of a name that people may leave out.
_VENDOR_WORDS = ("amd ", "hygon ", "radeon ", "instinct ")


def normal(name: str) -> str:
    """The name of a card model in a form for comparisons: lower case, spaces for `_` and `-`, no vendor words."""
    text = " ".join(re.split(r"[\s_-]+", name.strip().casefold()))
    for word in _VENDOR_WORDS:
        text = text.removeprefix(word)
    return text


# A cluster has few models; a hostile inventory may name many, of 63 characters each.
@lru_cache(1024)
def names(model: str) -> frozenset[str]:
    """All names by which a pod may choose a card model, in normal form.

    They are the whole name, each part between slashes, and the name of the model's chip.
    """
    own = {normal(model), *map(normal, model.split("/"))}
    chips = {normal(chip) for chip, models in _CHIPS.items() if own & {normal(each) for each in models}}
    return frozenset(own | chips)
