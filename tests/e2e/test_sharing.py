"""Two pods share a card: each sees its own part of it, and is held to that."""

import json
import re
from typing import Any

import pytest

from tests.e2e.kubectl import Kubectl, KubectlError
from tests.e2e.slices import held
from tests.e2e.workloads import container, pod, slice_of
from vgpu_runtime.rocm import UNITS_VARIABLE

PROBE = "vgpu-probe"


@pytest.fixture(scope="module")
def kubectl(kubectl_of_module: Kubectl) -> Kubectl:
    """kubectl in the namespace of the pair."""
    return kubectl_of_module


@pytest.fixture(scope="module")
def pair(kubectl: Kubectl) -> tuple[str, str]:
    """Two pods, 4 GiB and 15 core groups each, on one card. One of them says itself how many units HIP may use."""
    own = [{"name": UNITS_VARIABLE, "value": "0x1"}]
    for name, env in (("a", []), ("b", own)):
        kubectl.create(pod(name, container(env=env, resources=slice_of(mem=4, cores=15))))
    kubectl.running("a", "b")
    first, second = held(kubectl, "a") + held(kubectl, "b")
    assert first.card == second.card, "the default policy packs"
    assert not first.units & second.units
    return "a", "b"


def probe(kubectl: Kubectl, pod: str, *arguments: str) -> dict[str, Any]:
    """What the HIP program prints, whether it succeeds or not."""
    try:
        text = kubectl.inside(pod, "sh", "-c", f"{PROBE} {' '.join(arguments)} || true")
    except KubectlError as error:
        pytest.fail(f"{pod}: {error}")
    found: dict[str, Any] = json.loads(text.splitlines()[-1])
    return found


def test_each_sees_its_own_total_and_units_through_hip(kubectl: Kubectl, pair: tuple[str, str]) -> None:
    for name in pair:
        seen = probe(kubectl, name, "info")
        assert (seen["devices"], seen["total_mib"], seen["units"]) == (1, 4092, 15)
        cleared = kubectl.inside(name, "env", "-u", UNITS_VARIABLE, PROBE, "info")
        assert json.loads(cleared)["units"] == 15


def test_each_runs_kernels_on_a_queue(kubectl: Kubectl, pair: tuple[str, str]) -> None:
    for name in pair:
        assert probe(kubectl, name, "run", "2")["error"] == "hipSuccess"


def test_beyond_the_limit_is_out_of_memory_while_the_other_allocates(
    kubectl: Kubectl, pair: tuple[str, str]
) -> None:
    a, b = pair
    assert probe(kubectl, b, "alloc", "2048")["error"] == "hipSuccess"
    assert probe(kubectl, a, "alloc", "6144")["error"] == "hipErrorOutOfMemory"
    assert probe(kubectl, b, "alloc", "4000")["error"] == "hipSuccess"


# HIP itself refuses what exceeds the whole slice, so a second process asks for more than is left.
SHORT = f"""
mkfifo /tmp/until && {{ {PROBE} hold 3000 </tmp/until >/tmp/held & }} && exec 3>/tmp/until
until grep -q error /tmp/held; do :; done
{PROBE} alloc 2000 2>&1 >/dev/null | grep ^vgpu
VGPU_QUIET=1 {PROBE} alloc 2000 2>&1 >/dev/null | grep -c ^vgpu
/usr/local/vgpu/vgpu-smi --json
exec 3>&-
wait
"""


def test_a_refusal_is_one_line_that_can_be_silenced_and_the_tool_in_the_container_shows_it(
    kubectl: Kubectl, pair: tuple[str, str]
) -> None:
    printed = kubectl.inside(pair[1], "sh", "-c", SHORT)
    said, silenced, shown = printed.split("\n", 2)
    assert silenced == "0", printed
    line = r"vgpu: 2000 MiB refused: the slice has 4092 MiB, 300\d in use \(hygon\.com/dcu-mem: 4\)"
    assert re.fullmatch(line, said), printed
    found = json.loads(shown)
    (card,) = found["cards"]
    assert (card["memoryLimitBytes"], card["units"], card["cardUnits"]) == (4092 << 20, 15, 60)
    assert card["refusedAllocations"] >= 1
    assert card["memoryUsedBytes"] >= 3000 << 20
    assert [process["name"] for process in found["processes"]] == [PROBE]


def test_the_config_is_read_only_inside(kubectl: Kubectl, pair: tuple[str, str]) -> None:
    for path in ("/etc/vgpu/vgpu.conf", "/etc/ld.so.preload", "/usr/local/vgpu/libvgpu.so"):
        with pytest.raises(KubectlError, match="Read-only file system"):
            kubectl.inside(pair[0], "sh", "-c", f"echo x >> {path}")


def test_only_the_granted_card_has_device_nodes(kubectl: Kubectl, pair: tuple[str, str]) -> None:
    nodes = kubectl.inside(pair[0], "sh", "-c", "ls -d /dev/kfd /dev/dri/*").split()
    assert nodes[-1] == "/dev/kfd" or nodes[0] == "/dev/kfd"
    assert len([node for node in nodes if node.startswith("/dev/dri/renderD")]) == 1
    with pytest.raises(KubectlError, match="Operation not permitted"):
        kubectl.inside(pair[0], "sh", "-c", "mknod /tmp/another c 226 129 && cat /tmp/another")
