"""Vendors: families of cards, each with a driver of its own. The agent's knowledge of each is in its module here."""
