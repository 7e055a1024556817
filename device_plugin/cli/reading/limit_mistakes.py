"""Finds mistakes in containers' limits that the admission policies refuse, without a call to the API server.

A mistake is a name that differs from one of our resources in form only (`hygon.com/dcumem`), or memory in bytes or MiB
instead of memory units. The resource of a card family that the installation lacks is no mistake here: `unknown_family`
finds it.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

from device_plugin.cli.convert.products import is_of_another_product
from device_plugin.core.contract.quantities import parse_quantity
from device_plugin.core.contract.units import DEFAULT_UNIT_MIB
from device_plugin.core.pods import Pod
from device_plugin.core.requests import (
    CORES,
    MEM,
    PERCENT,
    SLICES,
    SUFFIXES,
    WHOLE,
    all_resource_names,
    family_of,
)

# As in manifests/admission/names.yaml.
_ENDING = (
    r"([-_.]?(s|num|number|count|cards?|mem|memory|cores?|slices?)?([-_.]?percent(age)?)?"
    r"|-share-[0-9]+c-[0-9]+g|-mig-[0-9]+g-[0-9]+gb)"
)
_MEANT = (("percent", PERCENT), ("slice", SLICES), ("mem", MEM), ("core", CORES))
_REWRITE = "if the file is for another product, rewrite it with `vgpu convert`"
# No card has more memory. This is the default of the parameter mostMemGiB.
MOST_GIB = 1024
# From this number on, a limit of memory units is taken for bytes, as in manifests/admission/requests.yaml.
BYTES_FROM = 2**20


def limit_mistake(
    pod: Pod, prefixes: Sequence[str], served: Collection[str], units: Mapping[str, int]
) -> str:
    """Returns the first mistake in the pod's limits as a sentence; empty if there is none.

    `served` are the resources that kubelets count. A name among them is no mistake even if it resembles ours, because
    another plugin serves it. `units` has the MiB of a memory unit by family; a family that is not in it has the
    default.
    """
    ours = all_resource_names(prefixes)
    for container in pod.containers:
        for name, text in container.limits.items():
            problem = ""
            if name in ours:
                problem = _amount_mistake(name, text, units.get(family_of(name), DEFAULT_UNIT_MIB))
            elif name not in served:
                problem = _name_mistake(name, prefixes)
            if problem:
                return f"container {container.name}: {problem}"
    return ""


def _name_mistake(name: str, prefixes: Sequence[str]) -> str:
    for prefix in prefixes:
        if _form(prefix).fullmatch(name):
            if "-share-" in name or "-mig-" in name:
                return (
                    f"{name} is no resource of a card: write {prefix}{MEM} and {prefix}{CORES} (vgpu convert)"
                )
            suffix = next((suffix for word, suffix in _MEANT if word in name[len(prefix) :].lower()), WHOLE)
            # A slip, or a request to another product, which may count in other units.
            other = f", or {_REWRITE}" if is_of_another_product(name, prefix) else ""
            return f"{name} is no resource of a card: write {prefix}{suffix}{other}"
    return ""


def unknown_family(pod: Pod, prefixes: Sequence[str], served: Collection[str]) -> str:
    """Returns a sentence about the first limit that is named like a card's resource and that no node counts.

    Empty if there is no such limit. Admission accepts such a limit, because another plugin may serve the resource on
    nodes that are added later.
    """
    ours = all_resource_names(prefixes)
    for container in pod.containers:
        for name in container.limits:
            if name.endswith(SUFFIXES[1:]) and name not in ours and name not in served:
                return (
                    f"container {container.name}: no node counts {name} now; the cards of this installation are"
                    f" {', '.join(prefixes)}"
                )
    return ""


def other_product(pod: Pod, prefixes: Sequence[str], served: Collection[str]) -> str:
    """Returns a sentence about the first limit that asks another product for a card, such as `nvidia.com/gpu`.

    Empty if there is none, or if nodes count the resource, because another plugin serves it here.
    """
    for container in pod.containers:
        for name in container.limits:
            if name not in served and is_of_another_product(name, prefixes[0]):
                return f"container {container.name} asks for {name}: {_REWRITE}"
    return ""


@lru_cache(64)
def _form(prefix: str) -> re.Pattern[str]:
    return re.compile(re.escape(prefix) + _ENDING, re.IGNORECASE)


def _amount_mistake(name: str, text: str, unit_mib: int) -> str:
    value = parse_quantity(text)
    most = MOST_GIB * 1024 // unit_mib
    if value is None or not name.endswith(MEM) or value <= most:
        return ""
    size = 1 if value < BYTES_FROM else 2**20
    units = -(-value // (unit_mib * size))
    if units > most:
        return f"{name} is {text}: no card has more than {most} memory units"
    unit = f"{unit_mib // 1024} GiB" if unit_mib % 1024 == 0 else f"{unit_mib} MiB"
    return f"{name} is {text} memory units of {unit}: write {units}" + (
        f" if you mean {text} MiB" if size == 1 else ""
    )
