"""hack/release: makes the files of a release, pushes its image to a registry, and packs all for offline sites."""
