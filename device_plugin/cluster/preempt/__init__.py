"""Which pods would have to go, or to move, so that another fits."""
