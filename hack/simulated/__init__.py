"""Simulated cards: the commands that make them, and the node agent that reads them. In an image of its own."""
