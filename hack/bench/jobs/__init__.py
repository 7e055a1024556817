"""`vgpu bench jobs`: job policies on traces of training jobs, on a virtual clock."""
