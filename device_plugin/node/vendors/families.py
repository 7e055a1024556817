"""The families of cards that the agent serves. Only this list names all of them; each has its own module."""

from collections.abc import Mapping
from typing import Any

from device_plugin.node.vendors.hygon import Hygon
from device_plugin.node.vendors.port import Vendor
from device_plugin.node.vendors.rocm import Rocm

Family = type[Vendor[Any]]
FAMILIES: tuple[Family, ...] = (Hygon, Rocm)
# Variables by which some runtimes give a container further cards, of any family, each with a value that gives none.
# Admission refuses others in the pod's spec (isolation.yaml), but does not see those of a ConfigMap or an image.
CARD_VARIABLES: Mapping[str, str] = dict(
    sorted(
        {"NVIDIA_VISIBLE_DEVICES": "void"}.items()
        | {item for family in FAMILIES for item in family.CARD_VARIABLES.items()}
    )
)
