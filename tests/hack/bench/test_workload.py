from pathlib import Path

import pytest

from device_plugin.core.hosts import HostAmounts
from device_plugin.core.requests import Request
from hack.bench.report import BenchError
from hack.bench.workload import read

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn1,64000,262144,2,P100\nn0,8000,1024,0,none\n"
PODS = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec
p2,4000,100,1,460,T4|P100
p1,2000,100,2,1000,
p3,1000,100,0,0,
"""


def files(folder: Path, nodes: str = NODES, pods: str = PODS) -> tuple[Path, Path]:
    (folder / "nodes.csv").write_text(nodes, encoding="utf-8")
    (folder / "pods.csv").write_text(pods, encoding="utf-8")
    return folder / "nodes.csv", folder / "pods.csv"


def test_nodes_with_cards_and_pods_by_name(tmp_path: Path) -> None:
    workload = read(*files(tmp_path))
    assert workload.capacity == 2
    (node,) = workload.nodes
    assert (node.room, len(node.inventory.cards)) == (HostAmounts(64000, 262144), 2)
    whole, part, none = workload.jobs
    assert whole.request.containers[0][1].whole == 2
    assert part.request.containers[0][1] == Request("bench.io/card", 0, 460, 0)
    assert part.request.models.accepts_model("P100")
    assert not part.request.models.accepts_model("G2")
    assert none.request.containers == ()
    assert [workload.cards(job) for job in workload.jobs] == [2, 0.46, 0]


@pytest.mark.parametrize(
    ("nodes", "pods", "message"),
    [
        ("sn,gpu\n", PODS, r"nodes\.csv has no column cpu_milli, memory_mib, model"),
        (NODES, "name,cpu_milli,num_gpu,gpu_milli\np,x,1,10\n", r"pods.csv, line 2: invalid literal"),
        (NODES, "name,cpu_milli,num_gpu,gpu_milli\np,1,2,500\n", "line 2: p asks for parts of 2 cards"),
        (NODES, "name,cpu_milli,num_gpu,gpu_milli\np,1,0,0\n", "no pod that asks for one"),
    ],
)
def test_a_file_that_is_no_workload_says_where(tmp_path: Path, nodes: str, pods: str, message: str) -> None:
    with pytest.raises(BenchError, match=message):
        read(*files(tmp_path, nodes, pods))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"gone\.csv"):
        read(tmp_path / "gone.csv", tmp_path / "gone.csv")
