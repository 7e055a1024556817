"""The queries for hours of slices and cards, evaluated by Prometheus' own engine, and the sums of their answers."""

import json
from pathlib import Path

import pytest

from device_plugin.cli.access.prometheus import Prometheus, PrometheusSeries
from device_plugin.cli.reading.usage import LEAST_STEP, UNKNOWN, Usage, UsageQueries, read_usage, summed
from device_plugin.cli.reading.waste import Owner
from tests.hack.generate.monitoring.promtool import promtool

AGENTS = "vgpu-system"
TARGET = f'job="{AGENTS}/vgpu"'
TWO_HOURS = UsageQueries(AGENTS, "", 7200)
GIB = 1 << 30


def series(pod: str, card: str, **values: float) -> dict[str, str]:
    labels = f'node="n1",card="{card}",namespace="team",pod="{pod}",container="main",{TARGET}'
    return {f"vgpu_slice_{name}{{{labels}}}": f"{value}x200" for name, value in values.items()}


def check(folder: Path, queries: dict[str, dict[str, float]], more: dict[str, str]) -> None:
    """Assert that at minute 120 each query gives these hours by pod."""
    cards = {
        f'vgpu_card_{name}{{node="n1",card="{card}",namespace="{AGENTS}",{TARGET}}}': f"{value}x200"
        for card in ("c1", "c2")
        for name, value in (("memory_bytes", 16 * GIB), ("core_groups", 60))
    }
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in {**cards, **more}.items()],
        "promql_expr_test": [
            {
                "expr": query, "eval_time": "120m",
                "exp_samples": [
                    {"labels": f'{{namespace="team", pod="{pod}"}}', "value": value} for pod, value in hours.items()
                ],
            }
            for query, hours in queries.items()
        ],
    }  # fmt: skip
    file = folder / "usage.yaml"
    file.write_text(json.dumps({"rule_files": [], "evaluation_interval": "1m", "tests": [test]}))
    promtool("test", "rules", file)


def test_a_slice_counts_as_the_larger_of_its_shares_of_its_card(tmp_path: Path) -> None:
    more = {
        **series(
            "even", "c1", memory_limit_bytes=4 * GIB, core_groups=15, memory_used_bytes=GIB, compute_ratio=0.5
        ),
        **series("wide", "c1", memory_limit_bytes=4 * GIB, core_groups=30, memory_used_bytes=4 * GIB),
        **series("heavy", "c2", memory_limit_bytes=12 * GIB, core_groups=15, memory_used_bytes=0),
    }
    queries: dict[str, dict[str, float]] = {
        TWO_HOURS.slices(): {"even": 2, "wide": 2, "heavy": 2},
        TWO_HOURS.cards(): {"even": 0.5, "wide": 1, "heavy": 1.5},
        TWO_HOURS.memory(): {"even": 0.125, "wide": 0.5, "heavy": 0},
        TWO_HOURS.busy(): {"even": 0.25},
    }
    check(tmp_path, queries, more)


def test_a_slice_counts_for_the_time_in_which_it_was_held_and_twice_exported_once(tmp_path: Path) -> None:
    (name,) = series("gone", "c1", memory_limit_bytes=4 * GIB)
    more = {name: f"{GIB}x60 stale", name.replace("{", '{instance="new",'): f"_x50 {GIB}x9 stale"}
    check(tmp_path, {TWO_HOURS.slices(): {"gone": 1}}, more)


def test_series_that_a_tenant_exports_are_left_out(tmp_path: Path) -> None:
    forged = {name.replace(f'"{AGENTS}/vgpu"', '"tenant/own"'): value for name, value in series(
        "a", "c1", memory_limit_bytes=GIB, core_groups=15, memory_used_bytes=GIB, compute_ratio=1.0
    ).items()}  # fmt: skip
    queries = (TWO_HOURS.slices(), TWO_HOURS.cards(), TWO_HOURS.memory(), TWO_HOURS.busy())
    check(tmp_path, {query: {} for query in queries}, forged)


@pytest.mark.parametrize(("seconds", "step"), [(3600, LEAST_STEP), (7 * 86400, 303), (366 * 86400, 15812)])
def test_a_long_time_is_read_at_a_bounded_number_of_moments(seconds: float, step: float) -> None:
    assert UsageQueries(AGENTS, "", seconds).step == step


JOB, SERVE = Owner("Job", "train"), Owner("Deployment", "serve")


def test_hours_are_summed_by_owner_and_by_namespace() -> None:
    pods = [
        Usage("a", JOB, 2, 1.0, 0.5, 0.25), Usage("a", JOB, 2, 1.0, 0.5, None), Usage("a", SERVE, 9, 3.0, 1.0, 1.0),
        Usage("b", JOB, 1, 0.5, None, 0.5),
    ]  # fmt: skip
    assert summed(pods, owners=True) == [
        Usage("a", SERVE, 9, 3.0, 1.0, 1.0), Usage("a", JOB, 4, 2.0, 1.0, None), Usage("b", JOB, 1, 0.5, None, 0.5),
    ]  # fmt: skip
    assert summed(pods, owners=False) == [
        Usage("a", None, 13, 5.0, 2.0, None), Usage("b", None, 1, 0.5, None, 0.5),
    ]  # fmt: skip


@pytest.mark.parametrize("named", [True, False])
def test_a_pod_without_a_controller_is_its_own_owner_if_owners_are_known(
    monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    owner = PrometheusSeries(
        {"namespace": "a", "pod": "p", "owner_kind": "Job", "owner_name": "train"}, [(0.0, 1.0)]
    )

    def now(_: Prometheus, query: str, at: float | None) -> list[PrometheusSeries]:
        assert at == 1795363200.0, "all queries are of one moment"
        if "vgpu:pod_owner:info" in query:
            return [owner] if named else []
        exported = {"exported_namespace": "a", "namespace": AGENTS, "pod": "vgpu-node"}
        return [
            PrometheusSeries({**exported, "exported_pod": pod}, [(0.0, value)])
            for pod, value in (("p", 2.0), ("q", 1.0), ("r", float("nan")))
        ]

    monkeypatch.setattr(Prometheus, "now", now)
    found = read_usage(Prometheus("http://localhost:1"), UsageQueries(AGENTS, "", 3600, 1795363200.0))
    owners = [JOB, Owner("Pod", "q")] if named else [UNKNOWN, UNKNOWN]
    assert [(each.namespace, each.owner, each.slices) for each in found] == [
        ("a", owners[0], 2.0), ("a", owners[1], 1.0),
    ]  # fmt: skip
