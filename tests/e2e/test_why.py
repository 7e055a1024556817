"""`vgpu check`, `fit` and `why` on a real cluster: fit says where a pod then goes, why asks the leading replica."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.kubectl import Kubectl
from tests.e2e.slices import grant
from tests.e2e.waiting import eventually
from tests.e2e.workloads import slice_pod
from tests.pages import PROJECT

SECONDS = 90.0
BOTH = "From the API server's lists and the allocator's"


def vgpu(*words: str) -> tuple[int, str]:
    """The exit status of a command, and what it prints."""
    command = [sys.executable, "-m", "device_plugin", *words]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False, timeout=180)
    return done.returncode, done.stdout + done.stderr


def test_check_finds_nothing_wrong() -> None:
    def sound() -> bool:
        status, said = vgpu("check")
        print(said)
        return (status, "problem" in said, "unknown" in said) == (0, False, False)

    assert eventually(sound, SECONDS)


def test_a_pod_goes_where_fit_says(kubectl: Kubectl, tmp_path: Path) -> None:
    """Other tests may take the place in between: then both are tried again."""
    count = 0

    def agreed() -> bool:
        nonlocal count
        count += 1
        made = slice_pod(f"p{count}", mem=3, cores=7)
        file = tmp_path / "pod.yaml"
        file.write_text(yaml.safe_dump(made))
        status, said = vgpu("fit", str(file), "-n", kubectl.namespace, "-o", "json")
        assert status == 0, said
        told = json.loads(said)
        print(told["source"])
        if not told["source"].startswith(BOTH):  # a moment in which the allocator does not answer
            return False
        kubectl.create(made)
        kubectl.running(f"p{count}")
        given = grant(kubectl, f"p{count}")
        (place,) = told["workloads"][0]["places"]
        return (place["node"], place["cards"]) == (given["node"], [given["containers"]["main"][0]["card"]])

    assert eventually(agreed, SECONDS)


def test_why_asks_the_leader_what_a_pod_lacks(kubectl: Kubectl) -> None:
    made: dict[str, Any] = slice_pod("large", mem=17, cores=1)
    kubectl.create(made)

    asks = f"{kubectl.namespace}/large asks for hygon.com/dcu-mem: 17, hygon.com/dcu-cores: 1"

    def told() -> bool:
        status, said = vgpu("why", "large", "-n", kubectl.namespace)
        print(said)
        return status == 0 and all(words in said for words in (asks, "too small for the request", BOTH))

    assert eventually(told, SECONDS)
    status, said = vgpu("why", "nobody", "-n", kubectl.namespace)
    assert (status, "there is no pod or job" in said) == (2, True)
