"""A stand-in of a program of Hygon gives out a node's cards: it is noticed, and nothing new is granted beside it."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from device_plugin.core.contract.annotations import REGISTERS
from device_plugin.node.checks.rivals import GONE_SECONDS
from device_plugin.node.vendors.hygon import MARKS
from tests.e2e import nodes, service
from tests.e2e.kubectl import Kubectl
from tests.e2e.machines import Machines
from tests.e2e.slices import grant, held, inventory
from tests.e2e.test_restarts import life
from tests.e2e.test_why import vgpu
from tests.e2e.waiting import eventually
from tests.e2e.workloads import slice_pod
from tests.other_plugin import OtherPlugin

pytestmark = pytest.mark.disturbs

NODE = "n1"
HERE = nodes.on(NODE)
# Promised on a machine of one's own; `eventually` is more patient.
NOTICED_SECONDS = 15.0
HCU, SOCKET = "hygon.com/hcu", "hygon.com_hcu"
THEIRS = ["HCU-1", "HCU-2", "HCU-3"]
REGISTER = REGISTERS[2]
MARK = f"/var/lib/vgpu-sim/{MARKS}/uid_main_0_1"
CDI_FILE = "hcu-dra-driver-claim.yaml"
CDI_SPEC = (
    '{"cdiVersion": "0.6.0", "kind": "hygon.com/hcu-test",'
    ' "devices": [{"name": "0", "containerEdits": {"env": ["THEIRS=0"]}}]}'
)
StandIn = Callable[[Machines], AbstractContextManager[None]]


@contextmanager
def device_plugin(machines: Machines) -> Iterator[None]:
    """Hygon's device plugin: a resource at the kubelet, and the marks that its scheduler and its pods leave."""
    process = machines.run(NODE, "sh", "-c", "echo $PPID").strip()
    plugin = OtherPlugin(Path(f"/proc/{process}/root/var/lib/kubelet/device-plugins"), HCU, THEIRS, SOCKET)
    try:
        machines.run(NODE, "sh", "-c", f"mkdir -p {Path(MARK).parent} && touch {MARK}")
        Kubectl("")("annotate", "node", NODE, f"{REGISTER}=theirs")
        assert eventually(lambda: nodes.get(NODE)["status"]["allocatable"].get(HCU) == "3", 30)
        yield
    finally:
        plugin.stop()
        machines.run(NODE, "rm", "-rf", str(Path(MARK).parent))
        Kubectl("")("annotate", "node", NODE, f"{REGISTER}-")


@contextmanager
def dra_driver(machines: Machines) -> Iterator[None]:
    """Hygon's DRA driver, by the file that it writes for each claim."""
    path = f"/var/run/cdi/{CDI_FILE}"
    machines.run(NODE, "sh", "-c", f"echo '{CDI_SPEC}' > {path}")
    try:
        yield
    finally:
        machines.run(NODE, "rm", path)


BY_PLUGIN = (f"the file /{MARKS}/", f"the node's annotation {REGISTER}", f"the socket {SOCKET}")
BY_DRIVER = (f"the CDI file {CDI_FILE}",)


def health() -> list[bool]:
    return [card["healthy"] for card in inventory(NODE)["cards"]]


def names_all(said: str, traces: Sequence[str]) -> bool:
    return "another program gives out the cards" in said and all(trace in said for trace in traces)


def in_events(traces: Sequence[str]) -> bool:
    return any(names_all(event, traces) for event in Kubectl().events(NODE) if event.startswith("Preflight"))


def by_check(traces: Sequence[str]) -> bool:
    status, said = vgpu("check")
    return status != 0 and names_all(said, traces)


def says_why(kubectl: Kubectl) -> bool:
    """True if the pod's event says that no card of the node is offered, and `vgpu why` where the cause is."""
    status, said = vgpu("why", "late", "-n", kubectl.namespace)
    named = all(words in said for words in (f"({NODE}): 4 cards: 4 unhealthy", "in the events of the node"))
    return status == 0 and named and any("unhealthy" in event for event in kubectl.events("late"))


@pytest.mark.parametrize(("stand_in", "traces"), [(device_plugin, BY_PLUGIN), (dra_driver, BY_DRIVER)])
def test_beside_a_program_of_the_maker_nothing_new_is_granted(
    kubectl: Kubectl, machines: Machines, stand_in: StandIn, traces: Sequence[str]
) -> None:
    assert eventually(lambda: all(health()), 60), "whatever the tests before this one did"
    kubectl.create(slice_pod("sitting", mem=4, cores=15, **HERE))
    kubectl.running("sitting")
    before = life(kubectl, "sitting"), held(kubectl, "sitting")
    begin = time.monotonic()
    with stand_in(machines):
        assert eventually(lambda: not any(health()), NOTICED_SECONDS)
        print(f"{stand_in.__name__}: no card is offered after {time.monotonic() - begin:.1f} s")
        assert eventually(lambda: in_events(traces), NOTICED_SECONDS)
        print(f"{stand_in.__name__}: an event says so after {time.monotonic() - begin:.1f} s")
        assert eventually(lambda: names_all(service.why_not_ready(NODE), traces), NOTICED_SECONDS)
        kubectl.create(slice_pod("late", mem=4, cores=15, **HERE))
        assert eventually(lambda: says_why(kubectl), 30), kubectl.events("late")
        assert eventually(lambda: by_check(traces), 60)
        assert '"error":"hipSuccess"' in kubectl.inside("sitting", "vgpu-probe", "alloc", "100")
        assert (kubectl.phase("late"), grant(kubectl, "late")) == ("Pending", {})
    gone = time.monotonic()
    assert eventually(lambda: all(health()), GONE_SECONDS + NOTICED_SECONDS)
    print(f"{stand_in.__name__}: all cards are offered {time.monotonic() - gone:.1f} s after its end")
    kubectl.running("late")
    print(f"{stand_in.__name__}: the pod that waited runs after {time.monotonic() - gone:.1f} s")
    assert eventually(lambda: not service.why_not_ready(NODE), 60)
    assert (life(kubectl, "sitting"), held(kubectl, "sitting")) == before
