"""Check all Bindings of the stub API server, in their order: no core group or MiB may have two holders."""

from collections.abc import Iterable, Sequence

from device_plugin.core.errors import AnnotationError
from device_plugin.core.grants import Grant
from device_plugin.core.ledger import Ledger
from hack.bench.extender.cluster_model import ClusterModel, uid


def overlaps(
    workload: ClusterModel, before: Sequence[Grant], history: Iterable[tuple[int, str, int | None]]
) -> list[str]:
    """Texts about grants that conflict.

    `history` has for each Binding the pod's number, its grant, and the number of the pod that was deleted next.
    """
    ledger = Ledger()
    for name in workload.names():
        ledger.set_node(name, workload.inventory(name))
    for grant in before:
        ledger.hold(grant)
    found = []
    for number, text, ended in history:
        try:
            grant = Grant.decode(text)
        except AnnotationError as error:
            found.append(f"pod-{number}: {error}")
            continue
        if grant.pod != uid(number):
            found.append(f"pod-{number} has the grant of {grant.pod}")
        ledger.hold(grant)
        found += [
            f"pod-{number} and {conflict.other} hold {conflict.over.value} of card {conflict.card}"
            for conflict in ledger.in_the_way(grant)
        ]
        if ended is not None:
            ledger.release(uid(ended))
    return found
