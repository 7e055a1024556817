"""Checks of what the stages rely on: the node, other plugins, and whether containers keep to their slices."""
