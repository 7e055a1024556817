"""What a decision depends on of a pod: pods that ask alike share their scores."""

from dataclasses import dataclass

from device_plugin.core.hosts import HostAmounts
from device_plugin.core.placement.columns import Kind
from device_plugin.core.requests import ANYTHING, PodRequest, Request, Selector

NO_CARD = Request("")


@dataclass(frozen=True, slots=True)
class Ask:
    """One request, for cards that the selectors accept, and what the pod wants of the host beside it.

    `request` asks for nothing where a pod wants no card: replayed traces have such pods, and they take CPU.
    """

    request: Request
    models: Selector = ANYTHING
    uuids: Selector = ANYTHING
    host: HostAmounts = HostAmounts()

    @classmethod
    def of(cls, request: PodRequest) -> "Ask | None":
        """What a pod of at most one asking container asks; None for a pod of several."""
        if len(request.containers) > 1:
            return None
        asked = request.containers[0][1] if request.containers else NO_CARD
        return cls(asked, request.models, request.uuids, request.host)

    def accepts(self, kind: Kind) -> bool:
        """True for the family and the models that are asked for; room and uuids are not looked at."""
        return kind.family == self.request.family and self.models.accepts(kind.model)

    @property
    def is_slice(self) -> bool:
        """True for a part of one card, false for any number of whole cards."""
        return self.request.mem is not None or self.request.cores is not None
