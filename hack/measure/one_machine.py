"""A one-machine cluster in a temporary folder, and a user of it, for measurements and tests."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from hack.embedded.cluster import EmbeddedCluster, Options
from hack.embedded.person import Person
from vgpu_runtime import sim


@contextmanager
def one_machine(
    nodes: Mapping[str, Sequence[sim.SimCard]], options: Options, user: str = "demo-user"
) -> Iterator[tuple[EmbeddedCluster, Person]]:
    """Start a cluster of these nodes, and yield it with a client of the user `user`; it ends with the context."""
    with (
        tempfile.TemporaryDirectory(prefix="vg-") as folder,
        EmbeddedCluster(Path(folder), nodes, options) as cluster,
        closing(Person(cluster.api.url, user)) as person,
    ):
        yield cluster, person
