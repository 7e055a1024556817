"""`vgpu check`: checks an installation, and prints what it finds."""
