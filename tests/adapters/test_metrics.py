"""What Prometheus reads of what the cluster service counts."""

from prometheus_client import CollectorRegistry, generate_latest

from device_plugin.adapters.metrics import ClusterMetrics


def _lines(registry: CollectorRegistry) -> list[str]:
    return generate_latest(registry).decode().splitlines()


def test_bindings_are_counted_by_outcome_and_placements_timed() -> None:
    registry = CollectorRegistry()
    counts = ClusterMetrics(registry)
    assert not [line for line in _lines(registry) if line.startswith("vgpu_binds_total")]
    counts.bound("bound")
    counts.bound("bound")
    counts.bound("fenced")
    counts.placed(0.003)
    lines = _lines(registry)
    assert 'vgpu_binds_total{outcome="bound"} 2.0' in lines
    assert 'vgpu_binds_total{outcome="fenced"} 1.0' in lines
    assert 'vgpu_placement_seconds_bucket{le="0.002"} 0.0' in lines
    assert 'vgpu_placement_seconds_bucket{le="0.005"} 1.0' in lines
    assert not [line for line in lines if "_created" in line]
