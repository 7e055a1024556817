"""Where a request goes: fit on a card, choose card and node."""
