"""Leadership: decide whether this replica leads, and from when on it may place."""
