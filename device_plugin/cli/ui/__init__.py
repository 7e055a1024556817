"""The page of `vgpu ui`: its data, which watches keep up to date, and its server on a loopback address."""
