"""Checks of the node, of other device plugins, and of whether containers keep to their slices."""
