"""The page of `vgpu ui`: what it shows of the cluster, kept live by watches, and its server on loopback."""
