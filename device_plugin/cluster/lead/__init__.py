"""Which replica leads, and from when on it may place."""
