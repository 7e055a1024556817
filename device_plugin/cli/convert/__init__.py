"""`vgpu convert`: rewrites pods that ask other products for a card."""
