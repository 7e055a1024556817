"""Simulated cards, in a separate image: the commands that make them, and a node agent that uses them."""
