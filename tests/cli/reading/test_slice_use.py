"""The queries to a Prometheus about the use of slices, and the series of its answers that are taken."""

import json
from argparse import Namespace
from pathlib import Path

import pytest

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli.access.prometheus import Prometheus, PrometheusSeries
from device_plugin.cli.reading.slice_use import COMPUTE, SliceUseReader, query_of
from tests.hack.generate.monitoring.promtool import promtool

AGENTS = "vgpu-system"
VICTIM = 'node="n1",card="n1-0",namespace="victim",pod="a",container="main"'
EXPORTED = 'node="n1",card="n1-0",exported_namespace="victim",exported_pod="a",exported_container="main"'
BOTH = f"{{{VICTIM}}}", f'{{{EXPORTED},namespace="{AGENTS}",pod="vgpu-node-0",container="agent"}}'


@pytest.mark.parametrize("namespace", ["", "victim"])
@pytest.mark.parametrize(
    ("labels", "kept"),
    [
        (f'{VICTIM},job="{AGENTS}/vgpu"', BOTH[0]),
        (f'{VICTIM},job="vgpu"', BOTH[0]),
        (VICTIM, BOTH[0]),
        (f'{EXPORTED},job="{AGENTS}/vgpu",namespace="{AGENTS}",pod="vgpu-node-0",container="agent"', BOTH[1]),
        # A tenant's pod, scraped as a tenant's monitor says, and by its annotations.
        (f'{EXPORTED},job="tenant/own",namespace="tenant",pod="x",container="main"', ""),
        (f'{EXPORTED},job="kubernetes-pods",namespace="tenant",pod="x",container="main"', ""),
        (f'{VICTIM},job="tenant/own"', ""),
    ],
)
def test_only_series_of_the_scrape_of_the_agents_count(
    tmp_path: Path, namespace: str, labels: str, kept: str
) -> None:
    test = {
        "interval": "1m",
        "input_series": [
            {"series": f'{COMPUTE}{{{labels},instance="{i}"}}', "values": f"0.{i}"} for i in (2, 5)
        ],
        "promql_expr_test": [
            {
                "expr": query_of(COMPUTE, AGENTS, namespace),
                "eval_time": "0m",
                "exp_samples": [{"labels": kept, "value": 0.5}] if kept else [],
            },
            {"expr": query_of(COMPUTE, AGENTS, "other"), "eval_time": "0m", "exp_samples": []},
        ],
    }
    file = tmp_path / "use.yaml"
    file.write_text(json.dumps({"rule_files": [], "evaluation_interval": "1m", "tests": [test]}))
    promtool("test", "rules", file)


def test_values_that_are_no_amounts_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def now(_: Prometheus, query: str) -> list[PrometheusSeries]:
        labels = {"namespace": "a", "container": "main", "node": "n1", "card": "n1-0"}
        values = [float("nan"), float("inf"), -1.0, 1e300]
        return [
            *(PrometheusSeries({**labels, "pod": f"p{value}"}, [(1.0, value)]) for value in values),
            PrometheusSeries({**labels, "pod": "b"}, [(1.0, 0.5 if COMPUTE in query else 1024.0)]),
        ]

    monkeypatch.setattr(Prometheus, "now", now)
    args = Namespace(agents_namespace=AGENTS, prometheus="http://localhost:1")
    (use,) = SliceUseReader(KubeClient.__new__(KubeClient), args, "").read(["n1"]).values()
    assert use[:8] == ("a", "b", "main", "n1", "n1-0", 1024.0, 1024.0, 0.5)
