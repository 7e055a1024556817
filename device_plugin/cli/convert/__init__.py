"""`vgpu convert`: pods that ask other products for a card, rewritten."""
