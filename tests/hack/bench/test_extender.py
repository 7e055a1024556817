"""`vgpu bench extender` on a tiny cluster: its figures, its witness, and what it says of what cannot be measured."""

import argparse
import json
import multiprocessing
import os
import signal
import tempfile
from pathlib import Path

import pytest

from device_plugin.core.contract.annotations import CARDS
from device_plugin.core.contract.cards import Inventory
from device_plugin.core.contract.grants import Grant, Slice
from hack.bench import command, hygon
from hack.bench.extender import api_objects, api_store, measurement
from hack.bench.extender.cluster_model import ClusterModel, uid
from hack.bench.extender.load import LoadFigures, Notes, SchedulerLoad
from hack.bench.report import BenchError

# On a busy machine the first placement may take more than a second.
TINY = ClusterModel(nodes=3, cards=2, fill=0.4, seconds=2.0, hopeless=2)


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return parser.parse_args(["extender", *words])


def test_the_figures_of_a_tiny_cluster_and_nothing_left_behind(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert (
        command.run(parsed("--nodes", "3", "--cards", "2", "--fill", "0.4", "--seconds", "2", "--json")) == 0
    )
    figures = json.loads(capsys.readouterr().out)
    assert (figures["nodes"], figures["cards"]) == (3, 6)
    assert 0 < figures["slices"] <= 24
    for key in ("pods_per_s", "filter_p50_ms", "filter_p99_ms", "rss_mib", "cpu_ms_per_pod", "rebuild_s"):
        assert figures[key] > 0
    assert figures["filter_p50_ms"] <= figures["filter_p99_ms"]
    assert not multiprocessing.active_children()
    assert not list(tmp_path.iterdir())


def test_the_bindings_that_the_stub_saw_never_overlap() -> None:
    grants = TINY.grants()
    with measurement.running(TINY, grants) as (api, service, scheduler):
        alone, beside = scheduler.run()
        assert alone.pods_per_s > 0
        assert beside is not None
        assert beside.pods_per_s > 0
        assert service.running
        wrong, bindings = measurement.bound(api)
    assert wrong == api_store.overlaps(TINY, grants, bindings) == []
    held = {grant.pod: grant for grant in grants}
    assert bindings
    for _, text, ended in bindings:
        grant = Grant.decode(text)
        held[grant.pod] = grant
        slices = [s for g in held.values() for s in g.slices()]
        for card in {s.card for s in grant.slices()}:
            cores = [core for s in slices if s.card == card for core in s.cores]
            assert len(cores) == len(set(cores))
            assert sum(s.mem_mib for s in slices if s.card == card) <= hygon.MIB
        if ended is not None:
            del held[uid(ended)]
    assert len(held) == len(grants)


def test_a_fault_ends_the_service_and_removes_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    pids: list[int] = []

    def interrupted(load: SchedulerLoad) -> None:
        pids.append(load.service.pid)
        raise KeyboardInterrupt

    monkeypatch.setattr(SchedulerLoad, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measurement.measure(TINY)
    assert not Path(f"/proc/{pids[0]}").exists()
    assert not multiprocessing.active_children()
    assert not list(tmp_path.iterdir())


def test_sigterm_ends_the_measurement_as_ctrl_c_does(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(measurement, "measure", lambda _: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(SystemExit):
        command.run(parsed("--nodes", "3"))
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_child_that_ends_is_told() -> None:
    with measurement.child(print) as pipe, pytest.raises(BenchError, match="API server ended"):
        measurement.heard(pipe)


@pytest.mark.parametrize(
    ("second", "clash"),
    [
        (Slice("node-00000-00", 4092, (4, 5)), "a core group"),
        (Slice("node-00000-00", hygon.MIB, (6,)), "more memory than the card has"),
    ],
)
def test_what_two_pods_hold_is_seen(second: Slice, clash: str) -> None:
    first = Slice("node-00000-00", 4092, (3, 4))
    texts = [Grant(uid(n), "node-00000", {"main": (s,)}).encode() for n, s in enumerate((first, second))]
    (wrong,) = api_store.overlaps(TINY, [], [(0, texts[0], None), (1, texts[1], None)])
    assert clash in wrong
    assert api_store.overlaps(TINY, [], [(0, texts[0], 0), (1, texts[1], None)]) == []


def test_a_binding_shows_in_the_watch_and_ends_another_pod() -> None:
    grants = TINY.grants()
    store, events = api_store.PodStore(TINY, grants), list[bytes]()
    assert store.watch(1, events.append)
    events.clear()
    number = len(grants)
    grant = Grant(uid(number), "node-00000", {"main": (Slice("node-00000-00", 1023, (0,)),)}).encode()
    meta = {"name": f"pod-{number}", "uid": uid(number), "annotations": {"vgpu.io/grant": grant}}
    body = json.dumps({"metadata": meta, "target": {"name": "node-00000"}}).encode()
    store.bind(body)
    bound, gone, new = (json.loads(event) for event in events)
    assert [bound["type"], gone["type"], new["type"]] == ["MODIFIED", "DELETED", "ADDED"]
    assert bound["object"]["spec"]["nodeName"] == "node-00000"
    assert bound["object"]["metadata"]["annotations"]["vgpu.io/grant"] == grant
    assert "nodeName" not in new["object"]["spec"]
    with pytest.raises(api_store.NotBoundError):
        store.bind(body)
    listed = json.loads(b"".join(store.listed()))
    assert len(listed["items"]) == len(grants) + api_store.AHEAD + TINY.hopeless


def test_only_what_ends_in_the_measured_time_counts() -> None:
    notes = Notes([(1, 9.0), (2, 0.004), (3, 0.002), (5, 9.0)], refusals=[2, 6], bindings=[1, 2, 3, 4, 5])
    assert notes.figures(2, 4, 0.006) == LoadFigures(
        pods_per_s=1.5, filter_p50_ms=4.0, filter_p99_ms=4.0, cpu_ms_per_pod=2.0, refused=1
    )
    with pytest.raises(BenchError, match="no pod was placed, 1 fit nowhere: write more --seconds"):
        notes.figures(6, 7, 0.0)


def test_filters_around_a_lesson_are_told_apart() -> None:
    filters = [(at, at / 1000) for at in (10.0, 45.0, 60.0, 85.0, 95.0, 150.0)]
    notes = Notes(filters, bindings=[50], lessons=[5, 55, 190])
    figures = notes.figures(10, 180, 1.0)
    assert (figures.lessons, figures.learning_p99_ms, figures.filter_p99_ms) == (1, 85.0, 150.0)
    assert notes.figures(10, 50, 1.0).learning_p99_ms is None


def test_the_cluster_is_filled_to_its_share_and_no_further() -> None:
    workload = ClusterModel(nodes=500, cards=2, fill=0.1, seconds=1)
    held = [sum(s.mem_mib for s in grant.slices()) for grant in workload.grants()]
    assert sum(held[:-1]) < 0.1 * 1000 * hygon.MIB <= sum(held)


def test_a_node_carries_its_inventory() -> None:
    shown = json.loads(api_objects.node("node-00001", TINY))
    assert len(Inventory.decode(shown["metadata"]["annotations"][CARDS]).cards) == 2


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (("--nodes", "0"), "--nodes from 1 to 20000"),
        (("--nodes", "1000000000"), "--nodes from 1 to 20000"),
        (("--cards", "65"), "--cards from 1 to 64"),
        (("--fill", "1"), "--fill from 0 to 0.9"),
        (("--fill", "nan"), "--fill from 0 to 0.9"),
        (("--seconds", "0"), "--seconds above 0"),
        (("--hopeless", "65"), "--hopeless from 0 to 64"),
        (("--seconds", "inf"), "--seconds above 0"),
    ],
)
def test_bad_arguments_say_what_to_write(words: tuple[str, ...], rule: str) -> None:
    with pytest.raises(BenchError, match=f"^write {rule}$"):
        command.run(parsed(*words))
