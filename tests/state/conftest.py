from tests.cluster.conftest import one, world

__all__ = ["one", "world"]
