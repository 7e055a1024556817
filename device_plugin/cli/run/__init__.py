"""`vgpu run`: writes a Job, follows its pods, prints their output, and fetches results."""
