"""What Prometheus reads of the cluster service."""

from collections.abc import Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest

from device_plugin.adapters.metrics import ClusterMetrics, Gauges


@dataclass(frozen=True)
class _Gauge:
    name: str
    samples: Sequence[tuple[Sequence[str], float]]
    help: str = "What it says."
    labels: Sequence[str] = ("node",)


def _lines(registry: CollectorRegistry) -> list[str]:
    return generate_latest(registry).decode().splitlines()


def test_gauges_are_read_at_the_moment_of_the_question_and_vanish_with_their_source() -> None:
    registry, now = CollectorRegistry(), [_Gauge("vgpu_x", [(("n1",), 3.0)])]
    Gauges(lambda: now, registry)
    assert 'vgpu_x{node="n1"} 3.0' in _lines(registry)
    now[0] = _Gauge("vgpu_x", [(("n2",), 4.0)])
    assert [line for line in _lines(registry) if line.startswith("vgpu_x")] == ['vgpu_x{node="n2"} 4.0']
    now[0] = _Gauge("vgpu_x", [])
    assert _lines(registry) == [], "a gauge without samples must be absent, not zero"


def test_nothing_is_read_before_it_is_asked_for() -> None:
    def read() -> list[_Gauge]:
        raise AssertionError("read at registration")

    Gauges(read, CollectorRegistry())


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


def test_label_values_from_outside_are_escaped() -> None:
    registry = CollectorRegistry()
    Gauges(lambda: [_Gauge("vgpu_x", [(('a"} 1\nvgpu_forged 1',), 1.0)])], registry)
    assert not [line for line in _lines(registry) if line.startswith("vgpu_forged")]
