"""Waiting for a cluster: each look costs a kubectl, so it is taken less often than elsewhere."""

from functools import partial

from tests import deadline

eventually = partial(deadline.eventually, every=0.25)
