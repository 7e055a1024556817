"""`vgpu demo`: a cluster on this machine with simulated cards, and the story that `make demo` shows on it."""
