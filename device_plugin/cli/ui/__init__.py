"""The page of `vgpu ui`: its data, kept up to date by watches, and its server on a loopback address."""
