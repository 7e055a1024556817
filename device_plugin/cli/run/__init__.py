"""`vgpu run`: the Job that it writes, how it follows its pods, and what it prints and fetches."""
