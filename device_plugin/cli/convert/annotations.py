"""Annotations of pods for other products: KAI's share of a card, and HAMi's choice of cards.

The names of annotations are from the documentation of HAMi and KAI.
"""

from collections.abc import MutableMapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from device_plugin.cli.convert.products import WHOLE_CARD, Ask, whole_number
from device_plugin.core.contract import annotations as ours
from device_plugin.core.errors import RequestError

Object = MutableMapping[str, Any]

# KAI's annotations of a pod.
_FRACTION, _MEMORY, _DEVICES = "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"
_OF_CONTAINER = "gpu-fraction-container-name"
_FRACTIONS = (_FRACTION, _MEMORY, _DEVICES, _OF_CONTAINER)
# Models of Hygon's cards that HAMi's users want or avoid. Lists of NVIDIA's models mean nothing on other cards.
_MODELS = {
    "hygon.com/use-dcutype": "", "hygon.com/nouse-dcutype": "!",
    "hygon.com/use-hcutype": "", "hygon.com/nouse-hcutype": "!",
}  # fmt: skip
_CARDS = ("hygon.com/use-gpuuuid", "hygon.com/nouse-gpuuuid")
_POLICIES = ("hami.io/gpu-scheduler-policy", "hami.io/node-scheduler-policy")
_POLICY_NAMES = {"binpack": "pack", "spread": "spread"}
# Annotations and labels of other products have these beginnings.
FOREIGN = (
    "nvidia.com/", "hygon.com/use-", "hygon.com/nouse-", "hygon.com/hcu", "hami.io/", "aliyun.com/", "volcano.sh/vgpu-",
    "kai.scheduler/", "run.ai/",
)  # fmt: skip


@dataclass(slots=True)
class Share:
    """The share of a card that KAI's annotations ask for, and the name of the container that gets it.

    If `container` is None, the pod's first container gets the share.
    """

    ask: Ask
    container: object


@dataclass(slots=True)
class Annotations:
    """Converts the annotations and labels of a pod, or of a pod template.

    `remarks` and errors are about annotations and labels only; they do not name the pod.
    """

    pod: Object
    remarks: list[str] = field(default_factory=list)

    def take_share(self) -> Share | None:
        """Remove KAI's annotations for a share of a card, and return the share; None if there are none.

        Raises RequestError.
        """
        found = self._found()
        asked = [key for key in (_FRACTION, _MEMORY) if key in found]
        if len(asked) > 1:
            raise RequestError(f"annotations {_FRACTION} and {_MEMORY}: keep one of them")
        if not asked and _DEVICES in found:
            raise RequestError(f"annotation {_DEVICES}: write {_FRACTION} or {_MEMORY} too, or remove it")
        if not asked:
            return None
        count = whole_number(f"annotation {_DEVICES}", found.get(_DEVICES, 1))
        share = Share(
            Ask(count, mem_percent=self._percent_of(found[_FRACTION]))
            if asked == [_FRACTION]
            else Ask(count, mem_mib=whole_number(f"annotation {_MEMORY}", found[_MEMORY])),
            found.get(_OF_CONTAINER),
        )
        for key in _FRACTIONS:
            found.pop(key, None)
        return share

    def convert_choices(self) -> None:
        """Convert the annotations by which a pod chooses cards.

        Adds a remark for each other annotation or label of another product. Raises RequestError.
        """
        found = self._found()
        models = [key for key in _MODELS if key in found]
        words = [
            _MODELS[key] + word.strip()
            for key in models
            for word in str(found[key] or "").split(",")
            if word.strip()
        ]
        policies = [key for key in _POLICIES if _POLICY_NAMES.get(str(found.get(key)))]
        names = [_POLICY_NAMES[str(found[key])] for key in policies]
        if words:
            self.write(ours.CARD_MODEL, ",".join(words), models[0])
        if names:
            self.write(ours.POLICY, names[0], policies[0])
            if len({str(found[key]) for key in _POLICIES if key in found}) > 1:
                self.remarks.append(
                    f"{ours.POLICY} decides on node and card; they differed, now both are {names[0]}"
                )
        for key in (*models, *(_POLICIES if names else ())):
            found.pop(key, None)
        for key in [key for key in found if str(key).startswith(FOREIGN)]:
            if key in _CARDS:
                self.remarks.append(
                    f"annotation {key} stays, without effect: write {ours.CARD_UUID} with names that `kubectl vgpu"
                    " cards` shows"
                )
            else:
                self.remarks.append(f"annotation {key} has no counterpart; it stays, without effect")
        for key in (self.pod.get("metadata") or {}).get("labels") or {}:
            if str(key).startswith(FOREIGN):
                self.remarks.append(f"label {key} has no counterpart; it stays, without effect")

    def write(self, key: str, value: str, source: str) -> None:
        """Write an annotation of ours. Raises RequestError if there is one with another value.

        `source` names the origin of the value.
        """
        metadata = mapping_at(self.pod, "metadata")
        found = mapping_at(metadata, "annotations")
        if str(found.get(key, value)) != value:
            raise RequestError(
                f"annotation {key} is {found[key]}, and from {source} it would be {value}: keep one of them"
            )
        found[key] = value

    def _found(self) -> Object:
        found: Object = (self.pod.get("metadata") or {}).get("annotations") or {}
        return found

    def _percent_of(self, text: object) -> int:
        """Returns the fraction of a card in `text` as percent.

        It is rounded down, with a remark, so that as many shares fit on a card as before. Raises RequestError if the
        fraction is not from 0.01 to 1.
        """
        try:
            # A Decimal keeps its exponent as it is written: a Fraction of 1e999999999 takes all memory.
            percent = Decimal(str(text)) * WHOLE_CARD
        except (ArithmeticError, ValueError):
            percent = Decimal(0)
        if not percent.is_finite() or not 1 <= percent <= WHOLE_CARD:
            raise RequestError(f"annotation {_FRACTION}: {text}: write a fraction from 0.01 to 1")
        if percent != int(percent):
            self.remarks.append(f"{_FRACTION} {text} is rounded down to {int(percent)} percent")
        return int(percent)


def mapping_at(parent: Object, name: str) -> Object:
    """Returns the mapping of this name in `parent`; an empty mapping is added if it is missing or null."""
    if parent.get(name) is None:
        parent[name] = {}
    found: Object = parent[name]
    return found
