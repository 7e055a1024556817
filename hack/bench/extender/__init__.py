"""`vgpu bench extender`: the cluster service itself, between a stub API server and the load of a scheduler."""
