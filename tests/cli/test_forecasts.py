"""`vgpu fit` and `why` say what the allocator then does. `hack/forecasts` asks them more often."""

import json
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from device_plugin.allocator.why_pod import grant_text
from device_plugin.cli.access import caller
from device_plugin.core.contract.grants import Grant
from device_plugin.core.pod_states import PodState
from device_plugin.core.pods import Pod
from device_plugin.wiring.commands import main
from tests.cli.listed_api import ListedApi, pod_object
from tests.cluster.random_cluster import allocator_of, offered, random_cluster, random_pod
from tests.cluster.world import Clock, FakeApi, Replica

PODS = int(os.environ.get("FORECASTS_PODS", "50"))
# Pods that come to a cluster one after the other.
TOGETHER = 10


class Commands:
    """The commands on the API's objects as they are now."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.api = FakeApi()
        self._file = folder / "pod.json"
        self._capsys = capsys
        monkeypatch.setattr(caller, "connected", self._connected)

    @contextmanager
    def _connected(self, *_: object) -> Iterator[ListedApi]:
        yield ListedApi(self.api)

    def fit(self, made: Pod) -> tuple[int, str]:
        """The exit code, and the line with the place."""
        self._file.write_text(json.dumps(pod_object(made)))
        status = main(["fit", str(self._file), "-n", made.namespace])
        return status, self._capsys.readouterr().out.splitlines()[1].strip()

    def why(self, made: Pod) -> dict[str, Any]:
        """The answer."""
        assert main(["why", f"pod/{made.name}", "-n", made.namespace, "-o", "json"]) == 0
        found: dict[str, Any] = json.loads(self._capsys.readouterr().out)
        return found


def decided(allocator: Replica, made: Pod) -> Grant | None:
    """The allocator decides and binds."""
    nodes = allocator.filter(made, offered(allocator, made)).nodes
    if not nodes:
        return None
    assert allocator.bind(made, nodes[0]) == ""
    return allocator.api.by_name[made.namespace, made.name].grant()


def cards_of(grant: Grant) -> list[str]:
    return sorted({part.card for part in grant.slices()})


@pytest.mark.timeout(max(120, PODS // 2))
def test_what_fit_and_why_say_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = int(os.environ.get("FORECASTS_SEED", random.randrange(1 << 30)))
    rng, clock, placed = random.Random(seed), Clock(), 0
    commands = Commands(tmp_path, monkeypatch, capsys)
    for number in range(PODS):
        if number % TOGETHER == 0:
            commands.api = random_cluster(rng, clock, rng.randint(0, 30))
            allocator = allocator_of(commands.api, clock)
        made = random_pod(rng, f"new-{number}")
        status, line = commands.fit(made)
        commands.api.put(made)
        answer = commands.why(made)
        grant = decided(allocator, made)
        case = f"seed {seed}, pod {number}"
        assert (status == 0, answer["state"] == PodState.FITS.value) == (grant is not None,) * 2, case
        if grant is not None:
            placed += 1
            assert line == grant_text(grant), case
            assert (answer["node"], answer["cards"]) == (
                grant.node,
                sorted({s.card for s in grant.slices()}),
            ), case
    assert PODS < 50 or 0 < placed < PODS, f"seed {seed}"
    with capsys.disabled():
        if "FORECASTS_PODS" in os.environ:
            print(f"{PODS} pods, {placed} placed: fit and why agree with the allocator in all")
