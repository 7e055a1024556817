"""The ids by which drivers distinguish the slices of a card: given at a container's start, released at its removal."""

from collections.abc import Callable, Iterable, Mapping

from device_plugin.core.contract.grants import Slice
from device_plugin.node.slices.records import Record, Records
from device_plugin.node.vendors.local_card import LocalCard


class SliceIds:
    """Gives containers the drivers' ids of their slices, if the cards' vendors need ids. The caller holds a lock."""

    def __init__(self, records: Records, cards: Callable[[], Mapping[str, LocalCard]]) -> None:
        self._records = records
        self._cards = cards

    def claim(self, key: tuple[str, str], slices: Iterable[Slice]) -> Mapping[str, int]:
        """New ids for the slices of a container, by card uuid. Raises NoVendorIdError if none is free now.

        An id is taken while another container's record or the driver has it.
        """
        before, cards, found = self._records.get(*key), self._cards(), dict[str, int]()
        others = [each.vendor_ids for each in self._records.all() if each.key != key]
        for card in (s.card for s in slices):
            vendor = cards[card].vendor
            if vendor.ids is None:
                continue
            taken = {held[card] for held in others if card in held}
            taken.update(vendor.driver_slices(cards[card].payload) or ())
            found[card] = vendor.ids.claim(card, taken, before.vendor_ids.get(card) if before else None)
        return found

    def release(self, record: Record) -> None:
        """Release the drivers' ids of a removed container's slices; cards that are not shared now are skipped."""
        cards = self._cards()
        for card, vendor_id in record.vendor_ids.items():
            if card in cards and (ids := cards[card].vendor.ids) is not None:
                ids.release(card, vendor_id)

    def read(self, key: tuple[str, str], slices: Iterable[Slice]) -> Mapping[str, int]:
        """The drivers' ids of a container's slices, by card uuid, read from its files because its record was lost."""
        folder, cards = self._records.folder(*key), self._cards()

        def text(name: str) -> str | None:
            try:
                return (folder / name).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError):
                return None

        here = [s.card for s in slices if s.card in cards]
        found: dict[str, int] = {}
        for vendor in {cards[card].vendor for card in here}:
            if vendor.ids is not None:
                found |= vendor.ids.claimed([card for card in here if cards[card].vendor is vendor], text)
        return found
