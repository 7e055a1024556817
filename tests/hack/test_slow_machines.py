"""On a slow machine the benchmarks and footprints measure what there is, in place of ending with an error."""

from pathlib import Path

import pytest

from hack.bench.extender import load, measurement
from hack.bench.extender.cluster_model import ClusterModel
from hack.measure import footprint
from hack.measure.one_machine import one_machine
from vgpu_runtime import sim


def test_a_service_that_has_learnt_nothing_is_measured_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It ended with: has learnt nothing after 120 s."""
    monkeypatch.setattr(load, "LESSON_SECONDS", 0.0)
    monkeypatch.setattr(load, "LESSON", b"never written")
    workload = ClusterModel(nodes=20, cards=4, fill=0.4, seconds=1.0)
    figures = measurement.measure(workload)
    assert figures["slices"] is not None
    assert figures["slices"] >= load.LESSON_PODS
    assert figures["learnt"] is False
    assert figures["cpu_ms_per_pod"]
    assert "learnt no target workload" in measurement._shown(figures)


def test_a_footprint_is_measured_though_not_all_pods_run_in_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(footprint, "PATIENCE_SECONDS", 0.0)
    cards = sim.parse("version: v1\ncards: [{preset: hygon-60cu-16gib, count: 1}]")
    with one_machine({"n1": cards}, footprint._options(str(tmp_path))) as (cluster, person):
        person.create(footprint.quarter("p0"))
        assert not footprint.until(person, "pods that never run", lambda: False)
        agent = cluster.agents["n1"]
        footprint.measure(cluster, agent.pid, "nobody", 0.5, footprint.MOST)
        monkeypatch.setattr(footprint, "ROUNDS", 1)
        footprint.measure_metrics(cluster, tmp_path, [], 0.5)
    told = capsys.readouterr()
    assert "waited 0 s for pods that never run" in told.err
    assert "CPU" in told.out
    assert "% of a core" in told.out
