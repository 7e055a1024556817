"""Vendors: families of cards, each with a driver of its own. What the agent knows of one lies in its module here."""
