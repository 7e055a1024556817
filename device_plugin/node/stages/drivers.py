"""Drivers: registers a DRA driver for each card family with the kubelet, and shows the cards as its devices.

The kubelet registers a driver when the driver's socket appears, and again after its own restart. Pods with
ResourceClaims are placed here only while all drivers of the node are registered.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from device_plugin.core.contract.cards import Card
from device_plugin.core.contract.claims import device_class, device_name
from device_plugin.core.machine import DeviceHealth, KubeletError
from device_plugin.node.ports import Driver
from device_plugin.node.stages.resource_slices import ResourceSlices

log = logging.getLogger(__name__)

# Seconds that the kubelet may take to register a driver, before the driver's socket is made again.
REGISTER_SECONDS = 15.0


class Drivers:
    """Runs one DRA driver for each card family. Call `step` about every half second.

    `make` returns a new driver for a driver name.
    """

    def __init__(
        self,
        make: Callable[[str], Driver],
        slices: ResourceSlices,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._make = make
        self._slices = slices
        self._clock = clock
        # By name: the drivers, and when each was started.
        self._drivers: dict[str, Driver] = {}
        self._since: dict[str, float] = {}
        self._waiting = "the DRA drivers are not served yet"

    @property
    def registered(self) -> bool:
        """True while the kubelet has registered the drivers of all card families of the node."""
        return not self._waiting

    @property
    def why_not(self) -> str:
        """The reason why pods with ResourceClaims cannot start here, as text; empty if they can."""
        return self._waiting or self._slices.why_not

    def step(self, cards: Sequence[Card], faults: Mapping[str, str]) -> None:
        """Start the drivers of the cards' families, and show the cards once all drivers are registered.

        `faults` has the fault of each sick card, by uuid. The kubelet deletes the ResourceSlices of a
        driver that is not registered. A new reason for not being registered is logged.
        """
        names = {device_class(card.family) for card in cards}
        for name in self._drivers.keys() - names:
            self._drivers.pop(name).stop()
        for name in sorted(names - self._drivers.keys()):
            self._drivers[name] = self._make(name)
        for name, driver in self._drivers.items():
            driver.update(_health([card for card in cards if device_class(card.family) == name], faults))
        before = self._waiting
        try:
            self._waiting = next(filter(None, [self._serve(name) for name in self._drivers]), "")
        except KubeletError as error:
            self._waiting = str(error)
        if self._waiting != before:
            log.info(
                "%s", self._waiting or f"registered with the kubelet: {', '.join(sorted(names)) or 'none'}"
            )
        if self.registered:
            self._slices.step(cards)

    def stop(self) -> None:
        """Stop all drivers; the kubelet then lets pods with ResourceClaims wait."""
        for driver in self._drivers.values():
            driver.stop()
        self._drivers.clear()

    def _serve(self, name: str) -> str:
        """Start the driver if it does not serve; returns why it is not registered, as text. Raises KubeletError."""
        driver = self._drivers[name]
        late = self._clock() - self._since.get(name, 0.0) > REGISTER_SECONDS
        if not driver.serving or (late and not driver.registered):
            self._since[name] = self._clock()
            driver.start()
        if driver.registered:
            return ""
        if driver.refusal:
            return f"the kubelet does not register the DRA driver {name}: {driver.refusal}"
        return f"the kubelet has not registered the DRA driver {name} yet"


def _health(cards: Iterable[Card], faults: Mapping[str, str]) -> Mapping[str, DeviceHealth]:
    """The health of the cards, by device name."""
    return {
        device_name(card): DeviceHealth(
            healthy=False, message=f"card {card.uuid} is unhealthy: {faults[card.uuid]}"
        )
        if card.uuid in faults
        else DeviceHealth(healthy=True, message=f"card {card.uuid}")
        for card in cards
    }
