"""`vgpu check`: the checks of an installation, and what they print."""
