"""The `vgpu` commands that a person types."""
