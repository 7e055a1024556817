"""The cluster that is measured: its nodes and cards, slices held beforehand, and the requests of later pods."""

import math
import random
from dataclasses import dataclass

from msgspec import structs

from device_plugin.core.contract.cards import Inventory
from device_plugin.core.contract.grants import Grant
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import Placer
from device_plugin.core.requests import PodRequest, Request
from hack.bench import hygon
from hack.bench.report import BenchError

FAMILY = "hygon.com/dcu"
CONTAINER = "main"
# Number of distinct requests: pod n has request n modulo KINDS, so that all three processes know its request.
KINDS = 4096
MOST_NODES = 20_000


@dataclass(frozen=True)
class ClusterModel:
    """The measured cluster: `fill` is the share of all memory that is granted at first, `seconds` the time measured.

    `hopeless` is the number of pods that fit nowhere. With `claims` the pods ask by ResourceClaims.
    """

    nodes: int
    cards: int
    fill: float
    seconds: float
    seed: int = 42
    hopeless: int = 0
    claims: bool = False

    def __post_init__(self) -> None:
        """Raise BenchError if a value is out of its bounds."""
        rules = {
            f"--nodes from 1 to {MOST_NODES}": 1 <= self.nodes <= MOST_NODES,
            "--cards from 1 to 64": 1 <= self.cards <= 64,
            "--fill from 0 to 0.9": 0 <= self.fill <= 0.9,
            "--seconds above 0": 0 < self.seconds < math.inf,
            "--hopeless from 0 to 64": 0 <= self.hopeless <= 64,
            "either --claims or --hopeless": not (self.claims and self.hopeless),
        }
        if broken := [rule for rule, holds in rules.items() if not holds]:
            raise BenchError(f"write {', '.join(broken)}")

    def names(self) -> list[str]:
        """The names of all nodes."""
        return [f"node-{n:05}" for n in range(self.nodes)]

    def inventory(self, node: str) -> Inventory:
        """The cards of one node."""
        cards = tuple(hygon.card(f"{node}-{i:02}", FAMILY, i) for i in range(self.cards))
        return Inventory(cards, claims=self.claims)

    def requests(self) -> list[Request]:
        """The requests of pods: half memory alone, a quarter core groups alone, a quarter both."""
        rng = random.Random(self.seed)
        return [_request(rng) for _ in range(KINDS)]

    def grants(self) -> list[Grant]:
        """The grants of pods 0, 1, 2, … that hold slices at first, made by the product's placement.

        Raises BenchError if the cluster is full before the share `fill` is granted.
        """
        requests, ledger = self.requests(), Ledger()
        for name in self.names():
            ledger.set_node(name, self.inventory(name))
        placer = Placer(ledger)
        grants: list[Grant] = []
        missing = self.fill * self.nodes * self.cards * hygon.MIB
        while missing > 0:
            asked = ((CONTAINER, requests[len(grants) % KINDS]),)
            claimed = ((CONTAINER, claim_uid(len(grants))),) if self.claims else ()
            grant = placer.place(PodRequest(uid(len(grants)), asked))
            if not isinstance(grant, Grant):
                raise BenchError(
                    f"the cluster is full before that share: {grant.text}; write a smaller --fill"
                )
            grant = structs.replace(grant, claims=dict(claimed))
            ledger.hold(grant)
            grants.append(grant)
            missing -= sum(s.mem_mib for s in grant.slices())
        return grants


def uid(number: int) -> str:
    """The UID of pod `number`."""
    return f"00000000-0000-4000-8000-{number:012d}"


def claim_uid(number: int) -> str:
    """The UID of the ResourceClaim of pod `number`."""
    return f"00000000-0000-4000-9000-{number:012d}"


def _request(rng: random.Random) -> Request:
    mem, cores, kind = rng.randint(1, 8), rng.randint(4, 30), rng.random()
    return Request(FAMILY, 0, mem if kind < 0.75 else None, cores if kind >= 0.5 else None)
