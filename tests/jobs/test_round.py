"""Rounds of an engine over an API server of dictionaries."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from device_plugin.core.contract.annotations import CHECKPOINT, GRANT, RESIZE_DROP
from device_plugin.core.contract.cards import Inventory
from device_plugin.core.contract.grants import Grant, Slice
from device_plugin.core.contract.resize import api_time
from device_plugin.core.jobs.progress import Progress, ProgressReport
from device_plugin.core.jobs.rules import Rules
from device_plugin.core.ledger import Snapshot
from device_plugin.core.node_constraints import NodeConstraints, Operator, Requirement, Taint
from device_plugin.core.pods import Node, Pod
from device_plugin.jobs.execute.sender import FRESH_SECONDS
from device_plugin.jobs.round import TICK_SECONDS
from device_plugin.jobs.show.views import views
from device_plugin.kube.api import Kind, Named, Object
from device_plugin.kube.errors import ForbiddenError, RefusedError, UnknownError
from tests.builders.cards import card, inventory
from tests.jobs.world import CARD_MIB, CORES, ONE_CARD, World

EAGER = Rules(young_s=0.0, cooldown_s=60.0)


@pytest.fixture
def world() -> World:
    return World(rules=EAGER)


def told(world: World, name: str) -> str:
    shown = views(world.engine.known, world.engine.planners)
    return next(view.why for view in shown if view.name == name)


def test_what_fits_runs_and_what_does_not_waits(world: World) -> None:
    world.queue("a", 3)
    world.queue("b", 2)
    world.settle(2)
    assert (world.job("a").suspend, world.job("b").suspend) == (False, True)
    assert "waits for room" in told(world, "b")
    world.finish("a")
    world.settle(2)
    assert not world.job("b").suspend


def test_a_rigid_job_runs_with_the_numbers_that_are_written_on_it(world: World) -> None:
    world.queue("tasks", 2, completions=5)
    world.queue("few", 8, completions=2)
    world.settle(2)
    for name, numbers in (("tasks", (2, 5)), ("few", (8, 2))):
        job = world.job(name)
        assert (job.suspend, job.parallelism, job.completions) == (False, *numbers)
        assert world.engine.rounds.last.states["default", name].running


def test_an_idle_engine_writes_and_reads_nothing(world: World) -> None:
    world.queue("a", 3)
    world.queue("b", 2)
    world.settle()
    world.api.patches.clear()
    seen = world.engine.rounds.last
    world.settle(30)
    assert (world.api.patches, world.api.reads) == ([], 0)
    assert world.engine.rounds.last is seen, "it does not even plan"


def test_metadata_that_a_tenant_writes_in_a_loop_starts_no_rounds(world: World) -> None:
    world.queue("a", 3)
    world.queue("b", 2)
    world.settle()
    seen = world.engine.rounds.last
    for turn in range(30):
        for name in ("a", "b"):
            kept = world.job(name).annotations
            world.api.put(replace(world.job(name), annotations={**kept, "kueue.x-k8s.io/colour": str(turn)}))
        world.turn()
    assert world.engine.rounds.last is seen
    world.finish("a")
    world.settle(2)
    assert not world.job("b").suspend
    assert world.api.reads == 0, "the write named the newest version"


def test_a_job_shrinks_as_soon_as_its_program_tells_of_the_checkpoint(world: World) -> None:
    world.queue("a", 4, annotations={
        "vgpu.io/min-replicas": "2", "vgpu.io/max-replicas": "4", "vgpu.io/checkpoint-seconds": "600",
    })  # fmt: skip
    world.settle(3)
    world.tell("a", ProgressReport(checkpoints=7))
    world.queue("b", 1)
    world.settle(20)
    assert world.job("a").parallelism == 4, "two minutes are not enough"
    world.tell("a", ProgressReport(checkpoints=7))
    world.turn()
    assert world.job("a").parallelism == 4, "it has told of that one before it was asked"
    world.tell("a", ProgressReport(checkpoints=8))
    world.settle(2)
    assert (world.job("a").parallelism, world.job("b").suspend) == (3, False)
    assert [name for name, _ in world.api.patches][-4:] == ["a", "a-0", "a", "b"], "four writes"


def test_an_engine_that_takes_over_before_the_request_hears_the_answer_too(world: World) -> None:
    world.queue("a", 4, annotations={
        "vgpu.io/min-replicas": "2", "vgpu.io/max-replicas": "4", "vgpu.io/checkpoint-seconds": "600",
    })  # fmt: skip
    world.settle(3)
    world.queue("b", 1)
    world.settle(1)
    world.restart()
    world.settle(2)
    assert [name for name, _ in world.api.patches][-1:] == ["a"], "it does not know yet which answer is one"
    world.tell("a", ProgressReport(checkpoints=7))
    world.turn()
    world.tell("a", ProgressReport(checkpoints=8))
    world.settle(2)
    assert (world.job("a").parallelism, world.job("b").suspend) == (3, False)


def asked_for_a_checkpoint(world: World) -> None:
    """`slow` has an hour for a checkpoint, and is asked for one of its three cards, for `b`; `short` has the fourth."""
    bounds = {"vgpu.io/min-replicas": "1", "vgpu.io/max-replicas": "3"}
    world.queue("slow", 3, annotations={**bounds, "vgpu.io/checkpoint-seconds": "3600"})
    world.queue("short", 1)
    world.settle()
    world.queue("b", 1)
    world.settle()
    record = world.record("slow")
    assert (record.beneficiary, record.applied) == (("default", "b"), False)


def test_a_job_that_fits_on_free_cards_does_not_wait_for_a_checkpoint_of_another_one(world: World) -> None:
    asked_for_a_checkpoint(world)
    world.finish("short")
    world.settle(3)
    assert (world.job("b").suspend, world.job("slow").parallelism) == (False, 3)
    assert world.record("slow").until == 0.0, "nobody needs its card any more"


def test_a_free_card_goes_to_the_first_in_the_queue_though_others_were_asked_for_another_job(
    world: World,
) -> None:
    asked_for_a_checkpoint(world)
    before = world.record("slow")
    world.queue("first", 1, created=api_time(world.now - 86_400))
    world.finish("short")
    world.settle(3)
    assert (world.job("first").suspend, world.job("b").suspend) == (False, True)
    assert world.record("slow") == before


def test_a_running_job_shrinks_for_one_that_waits_and_grows_back(world: World) -> None:
    world.queue("a", 4, 2)
    world.settle(3)
    assert world.job("a").parallelism == 4
    world.api.patches.clear()
    world.queue("b", 1)
    world.settle(3)
    assert (world.job("a").parallelism, world.job("b").suspend) == (3, False)
    assert [name for name, _ in world.api.patches] == ["a", "a", "b"], "three writes"
    world.finish("b")
    world.api.patches.clear()
    world.settle(15)
    assert world.job("a").parallelism == 4
    assert [name for name, _ in world.api.patches] == ["a", "a"], "two writes"


class Killed(BaseException):
    """The end of the engine's process."""


def kill_at(world: World, number: int, *, landed: bool) -> None:
    """Kill the engine at one of its next writes, just before it is done, or just after if it `landed`."""
    left = number

    def patch(kind: Kind[Any], of: Named, change: Object) -> Any:
        nonlocal left
        left -= 1
        if left == 0:
            if landed:
                world.api.land(kind, of, change)
            raise Killed
        return world.api.land(kind, of, change)

    world.api.on_patch = patch


def turns(world: World, count: int, saved: Callable[[], int] = lambda: 0) -> None:
    """Some turns, in which job a tells how many checkpoints it has saved; who is killed is followed by another one."""
    for _ in range(count):
        world.tell("a", ProgressReport(checkpoints=saved()))
        try:
            world.turn()
        except Killed:
            world.restart()


@pytest.mark.parametrize("writes", range(6))
@pytest.mark.parametrize("landed", [False, True])
def test_an_engine_that_is_killed_at_a_write_is_followed_by_one_that_goes_on(
    writes: int, landed: bool
) -> None:
    world = World(rules=EAGER)
    world.queue("a", 4, 2)
    world.settle(3)
    world.queue("b", 2)
    kill_at(world, writes, landed=landed)
    turns(world, 6)
    assert (world.job("a").parallelism, world.job("b").suspend) == (2, False)
    assert len(world.api.patches) <= 3 + 1 + 3, world.api.patches


@pytest.mark.parametrize("writes", range(1, 5))
@pytest.mark.parametrize("landed", [False, True])
def test_an_engine_that_follows_one_killed_around_a_request_for_a_checkpoint_hears_the_answer(
    writes: int, landed: bool
) -> None:
    world = World(rules=EAGER)
    world.queue("a", 4, annotations={
        "vgpu.io/min-replicas": "2", "vgpu.io/max-replicas": "4", "vgpu.io/checkpoint-seconds": "600",
    })  # fmt: skip
    world.settle(3)
    world.queue("b", 2)
    kill_at(world, writes, landed=landed)

    def saved() -> int:
        """It saves once it is asked."""
        first = next(pod for pod in world.of(world.job("a")) if pod.index == 0)
        return 8 if first.annotation(CHECKPOINT) else 7

    turns(world, 12, saved)
    assert (world.job("a").parallelism, world.job("b").suspend) == (2, False), "its answer was heard"
    assert world.record("a").unsaved == 0


@pytest.mark.parametrize("writes", [1, 2])
@pytest.mark.parametrize("landed", [False, True])
def test_an_engine_that_follows_one_killed_in_a_growth_finishes_it(writes: int, landed: bool) -> None:
    world = World(rules=EAGER)
    world.queue("b", 2)
    world.settle(2)
    world.queue("a", 4, 2)
    world.settle(2)
    world.finish("b")
    kill_at(world, writes, landed=landed)
    turns(world, 20)
    assert world.job("a").parallelism == 4


def failing(world: World, error: Exception, *, landed: bool) -> Callable[[], int]:
    """Let the next patch fail; returns how many failed so far."""
    failed = 0

    def patch(kind: Kind[Any], of: Named, change: Object) -> Any:
        nonlocal failed
        failed += 1
        world.api.on_patch = world.api.land
        if landed:
            world.api.land(kind, of, change)
        raise error

    world.api.on_patch = patch
    return lambda: failed


@pytest.mark.parametrize("landed", [False, True])
def test_nothing_is_assumed_done_before_it_was_read_again(world: World, landed: bool) -> None:
    world.queue("a", 4)
    failed = failing(world, UnknownError("no answer"), landed=landed)
    world.settle(3)
    assert (failed(), world.api.reads) == (1, 1)
    assert len(world.api.patches) == 1
    assert not world.job("a").suspend


def test_while_it_cannot_be_read_nothing_is_written(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.queue("a", 2)
    failing(world, UnknownError("no answer"), landed=False)

    def away(*_: object) -> None:
        raise UnknownError("no answer")

    monkeypatch.setattr(world.api, "get", away)
    world.settle(3)
    world.queue("b", 1)
    world.settle(3)
    assert world.api.patches == []


def test_a_job_that_changed_meanwhile_is_looked_at_again(world: World) -> None:
    world.queue("a", 4)
    world.cluster()
    world.api.jobs["default", "a"] = replace(world.job("a"), version="99")
    world.settle(3)
    assert world.api.reads == 1
    assert not world.job("a").suspend


def test_a_job_that_may_not_be_resized_keeps_its_width_and_says_so(world: World) -> None:
    world.queue("a", 4, 2)
    world.settle(3)
    world.queue("b", 1)
    failing_width(world)
    world.settle(12)
    assert (world.job("a").parallelism, world.job("b").suspend) == (4, True)
    assert "the API server refused to change it: the width is fixed" in told(world, "a")
    before = len(world.api.patches)
    world.settle(30)
    assert len(world.api.patches) == before, "it is not tried again"


def failing_width(world: World) -> None:
    def patch(kind: Kind[Any], of: Named, change: Object) -> Any:
        if "parallelism" in change.get("spec", {}):
            raise RefusedError("the width is fixed", 422, "Invalid")
        return world.api.land(kind, of, change)

    world.api.on_patch = patch


def test_a_job_whose_start_is_refused_keeps_nobody_else_waiting(world: World) -> None:
    world.queue("a", 1)
    world.queue("b", 1)
    tries = 0

    def patch(kind: Kind[Any], of: Named, change: Object) -> Any:
        nonlocal tries
        if of.name == "a":
            tries += 1
            raise ForbiddenError("not allowed", 403, "Forbidden")
        return world.api.land(kind, of, change)

    world.api.on_patch = patch
    for _ in range(100):
        world.turn(1.0)
    assert not world.job("b").suspend
    assert 2 <= tries <= 6, "later and later"


def test_a_job_whose_pods_a_quota_refuses_goes_back_to_those_that_it_has(world: World) -> None:
    world.queue("a", 2, 1, 4)
    world.quotas["default"] = 3
    world.settle(2)
    for _ in range(10):
        world.turn(1.0)
    assert world.job("a").parallelism == 3
    assert "exceeded quota: team, limited: pods=3" in told(world, "a")
    assert "does not grow before 2027-01-15T08:" in told(world, "a")
    writes, lists = len(world.api.patches), world.api.lists
    for _ in range(20):
        world.turn(1.0)
    assert (len(world.api.patches), world.api.lists) == (writes, lists), "it waits"
    for _ in range(2 * 3600):
        world.turn(1.0)
    assert len(world.api.patches) - writes <= 3 * 8, "longer and longer"
    world.quotas.clear()
    for _ in range(2 * 3600):
        world.turn(1.0)
    assert world.job("a").parallelism == 4


def test_a_rigid_job_whose_pods_a_quota_refuses_leaves_its_cards_to_others(world: World) -> None:
    world.queue("a", 3)
    world.quotas["default"] = 2
    for _ in range(10):
        world.turn(1.0)
    assert world.job("a").suspend
    assert "exceeded quota: team" in told(world, "a")
    world.queue("b", 2)
    for _ in range(10):
        world.turn(1.0)
    assert not world.job("b").suspend
    world.finish("b")
    world.restart()
    world.quotas.clear()
    for _ in range(70):
        world.turn(1.0)
    assert not world.job("a").suspend, "it is tried again, by another engine too"


def joint(world: World, name: str, width: int) -> None:
    """Somebody creates a Job of the group `g`, whose pods are all needed."""
    labels = {"vgpu.io/queue": "default", "vgpu.io/group": "g", "vgpu.io/role": name}
    world.queue(name, width, labels=labels, annotations={"vgpu.io/group-jobs": "2"})


def test_a_group_of_which_a_quota_refuses_pods_stops_whole_and_starts_again_whole(world: World) -> None:
    world.quotas["default"] = 2
    for name, width in (("master", 1), ("trainer", 2)):
        joint(world, name, width)
    for _ in range(10):
        world.turn(1.0)
    assert [world.job(name).suspend for name in ("master", "trainer")] == [True, True]
    assert "exceeded quota: team" in told(world, "master")
    world.queue("b", 2)
    for _ in range(10):
        world.turn(1.0)
    assert not world.job("b").suspend, "its cards are for others meanwhile"
    world.finish("b")
    world.quotas.clear()
    started = list[str]()
    for _ in range(70):
        world.turn(1.0)
        started += [name for name in ("master", "trainer") if not world.job(name).suspend]
        assert len(started) % 2 == 0, "together"
    assert started


def test_a_job_that_ran_and_whose_next_pod_a_quota_refuses_goes_on_and_keeps_no_card_idle(
    world: World,
) -> None:
    world.queue("a", 3)
    world.settle(20)
    world.quotas["default"] = 2
    (lost, *_) = world.of(world.job("a"))
    world.api.remove_pod(lost)
    world.settle(4)
    assert not world.job("a").suspend, "it would lose what it has done"
    assert "exceeded quota: team" in told(world, "a")
    world.queue("b", 2)
    world.engine.rounds.step()
    assert not world.job("b").suspend, "two of four cards are free"


def giving(world: World) -> None:
    """Job a, on four cards, gives two of them to job b, and its pods there do not end."""
    world.queue("a", 4, 2)
    world.settle(3)
    world.lingers = True
    world.queue("b", 2)
    world.settle(3)
    assert (world.job("a").parallelism, world.job("b").suspend) == (2, True)


def test_cards_of_a_node_that_died_in_mid_shrink_are_held_until_its_pods_are_gone(world: World) -> None:
    giving(world)
    world.settle(60)
    assert world.job("b").suspend
    assert (world.job("a").suspend, world.job("a").parallelism) == (False, 2), "it goes on with the others"
    world.lingers = False
    world.settle(3)
    assert not world.job("b").suspend


def test_who_waits_for_a_node_that_died_in_mid_shrink_is_planned_anew_on_other_cards() -> None:
    world = World(cards=6, rules=EAGER)
    world.queue("c", 2)
    world.settle(2)
    giving(world)
    world.settle(30)
    world.lingers = False
    for pod in world.of(world.job("c")):
        world.api.remove_pod(pod)
    world.finish("c")
    world.lingers = True
    world.settle(2)
    assert not world.job("b").suspend
    assert {each.card for pod in world.of(world.job("b")) if (made := pod.grant()) for each in made.slices()} == {
        "n1-0", "n1-1"
    }, "those of the other job"  # fmt: skip
    assert world.job("a").parallelism == 2
    world.lingers = False
    world.settle(30)
    assert world.job("a").parallelism == 4, "its own cards are its again once they are free"


def test_a_job_that_ends_during_its_shrink_leaves_its_cards_to_the_job_that_it_shrinks_for(
    world: World,
) -> None:
    giving(world)
    world.finish("a")
    world.lingers = False
    world.settle(2)
    assert not world.job("b").suspend
    assert len(world.of(world.job("b"))) == 2


@pytest.mark.parametrize("how", ["widened", "suspended", "deleted", "dropped"])
def test_who_changes_a_job_in_mid_shrink_wins(world: World, how: str) -> None:
    giving(world)
    job = world.job("a")
    if how == "deleted":
        for pod in world.of(job):
            world.api.remove_pod(pod)
        del world.api.jobs["default", "a"]
        world.engine.known.gone(job.uid)
    elif how == "dropped":
        gen = str(world.record("a").gen)
        world.api.put(replace(job, annotations={**job.annotations, RESIZE_DROP: gen}))
    else:
        changed: dict[str, Any] = (
            {"suspend": True} if how == "suspended" else {"parallelism": 4, "completions": 4}
        )
        world.api.put(replace(job, **changed))
    world.lingers = False
    world.engine.rounds.step()
    if how in ("widened", "dropped"):
        assert world.job("a").parallelism == (4 if how == "widened" else 2)
        assert world.record("a").until < world.now, "its record is dropped"
        assert world.record("a").grants == ()
    world.settle(20)
    assert not world.job("b").suspend, "it is planned anew"
    widths = [each.parallelism for each in world.api.jobs.values() if not each.suspend]
    assert sum(widths) <= 4


def test_a_width_that_was_set_by_hand_is_kept_until_another_job_needs_cards(world: World) -> None:
    world.queue("a", 4, 2)
    world.settle(3)
    world.api.put(replace(world.job("a"), parallelism=3, completions=3))
    world.settle(3)
    writes = len(world.api.patches)
    world.settle(100)
    assert (world.job("a").parallelism, len(world.api.patches)) == (3, writes), "though a card is idle"
    assert "its width was set by hand" in told(world, "a")
    world.queue("b", 2)
    world.settle(3)
    assert (world.job("a").parallelism, world.job("b").suspend) == (2, False)
    world.finish("b")
    world.settle(30)
    assert world.job("a").parallelism == 4, "from then on it grows again"


def test_only_the_replica_that_leads_writes(world: World) -> None:
    world.leads = False
    world.queue("a", 1)
    world.settle(3)
    assert world.api.patches == []
    assert "another replica" in told(world, "a")
    world.leads = True
    world.settle(1)
    assert not world.job("a").suspend


def test_a_job_that_cannot_be_read_says_what_to_write(world: World) -> None:
    world.queue("a", 4, annotations={"vgpu.io/min-replicas": "none"})
    world.settle(1)
    assert world.job("a").suspend
    assert "vgpu.io/min-replicas" in told(world, "a")


def test_r1_what_no_cluster_could_hold_is_refused_until_nodes_join(world: World) -> None:
    world.queue("a", 9)
    world.settle(2)
    assert "ask for fewer" in told(world, "a")
    world.join_node("n2", 5)
    world.settle(2)
    assert not world.job("a").suspend


def test_e3_a_round_follows_a_change_of_a_job_at_once_and_one_of_the_cards_at_the_tick(world: World) -> None:
    def planned_now() -> bool:
        world.engine.rounds.step()
        return world.engine.rounds.last.at == world.now

    assert planned_now()
    world.now += 0.1
    assert not planned_now(), "nothing has changed"
    world.queue("a", 9)
    assert planned_now()
    world.now += 0.1
    world.join_node("n2", 5)
    assert not planned_now()
    world.now += TICK_SECONDS
    assert planned_now()
    assert not world.job("a").suspend


def test_kueue_decides_about_its_own_jobs(world: World) -> None:
    labels = {"vgpu.io/queue": "default", "kueue.x-k8s.io/queue-name": "theirs"}
    made = world.queue("a", 1)
    world.api.put(replace(made, labels=labels))
    world.settle(3)
    assert world.job("a").suspend


def test_a_job_that_gave_no_checkpoint_twice_is_not_made_narrower_for_an_hour() -> None:
    world = World(rules=Rules(young_s=0.0, cooldown_s=60.0, quantum_s=1e6, age_s=1e6))
    bounds = {"vgpu.io/min-replicas": "1", "vgpu.io/max-replicas": "4", "vgpu.io/checkpoint-seconds": "20"}
    world.queue("a", 4, annotations=bounds)
    world.settle(3)
    for name in ("b", "c"):
        world.queue(name, 1)
        for _ in range(8):
            world.tell("a", ProgressReport(checkpoints=3))
            world.turn()
        assert not world.job(name).suspend
    assert world.job("a").parallelism == 2
    assert "its program gave no checkpoint" in told(world, "a")
    world.restart()
    world.queue("d", 1)
    for _ in range(100):
        world.turn(30.0)
    assert (world.job("a").parallelism, world.job("d").suspend) == (2, True)
    for _ in range(40):
        world.turn(30.0)
    assert (world.job("a").parallelism, world.job("d").suspend) == (1, False)


def test_a_record_keeps_the_width_that_was_asked_for(world: World) -> None:
    world.queue("a", 3, 1, 4)
    world.settle(20)
    assert world.job("a").parallelism == 4
    world.queue("b", 2)
    world.settle()
    assert world.record("a").author_width == 3
    assert (world.job("a").parallelism, world.record("b").author_width) == (2, 2)
    world.restart()
    world.finish("b")
    world.settle(30)
    assert (world.job("a").parallelism, world.record("a").author_width) == (4, 3)


def test_others_shrink_for_sub_tasks_and_the_window_widens_when_their_cards_are_free() -> None:
    for restarted in (False, True):
        world = World(rules=EAGER)
        world.queue("wide", 3, 1)
        world.settle(2)
        started = world.queue("frames", 1, completions=8, annotations={"vgpu.io/split": "ordered"})
        world.api.put(replace(started, suspend=False, started=api_time(world.now)))
        world.cluster()
        world.lingers = True
        world.api.patches.clear()
        world.turn()
        assert not world.api.patches, "the split has just begun"
        world.turn(EAGER.cooldown_s)
        for _ in range(4):
            world.turn()
            if restarted:
                world.restart()
        assert [name for name, _ in world.api.patches] == ["wide", "wide"]
        record = world.record("wide")
        assert (record.after, record.beneficiary, record.replicas) == (1, ("default", "frames"), 3)
        assert world.job("frames").parallelism == 1, "the pods that leave have not ended"
        world.lingers = False
        world.settle(20)
        assert (world.job("wide").parallelism, world.job("frames").parallelism) == (1, 3)
        assert [name for name, _ in world.api.patches] == ["wide", "wide", "frames"], "three writes"


def test_a_job_that_waited_for_an_hour_gets_the_card_of_a_sub_task_that_has_just_begun(world: World) -> None:
    world.queue("a", 4, completions=100, annotations={"vgpu.io/split": "ordered"})
    world.settle(3)
    assert world.job("a").parallelism == 4

    def began(seconds_ago: float) -> None:
        for pod in world.of(world.job("a")):
            world.api.put_pod(structs.replace(pod, created=api_time(world.now - seconds_ago)))

    began(600)
    world.queue("b", 1, created=api_time(world.now))
    for _ in range(61):
        world.turn(60.0)
    assert world.job("b").suspend, "what runs would lose its work"
    began(5)
    world.settle(3)
    assert (world.job("a").parallelism, world.job("b").suspend) == (3, False)
    world.finish("b")
    began(600)
    world.settle(40)
    assert world.job("a").parallelism == 4


GOAL = {"samples": "1000", "epochs": "10", "duration": "5000s", "model": "m"}


def sized(world: World, name: str, **changed: str) -> None:
    """Somebody creates a Job of one pod that is to be sized."""
    goal = {f"vgpu.io/{key}": text for key, text in {**GOAL, **changed}.items()}
    world.queue(name, 1, annotations=goal)


def test_a_job_with_a_goal_starts_with_the_width_that_it_needs_and_keeps_it() -> None:
    world = World(rules=EAGER, rates="m Z100 1:1 2:2 4:4")
    sized(world, "a")
    world.settle(2)
    job = world.job("a")
    assert (job.suspend, job.parallelism, job.completions) == (False, 2, 2)
    world.settle(20)
    assert world.job("a").parallelism == 2, "it does not grow onto idle cards"


def test_a_job_with_a_goal_waits_for_its_width_and_says_what_it_can_have() -> None:
    world = World(rules=EAGER, rates="m Z100 1:1 2:2 4:4")
    world.queue("other", 3)
    world.settle(2)
    sized(world, "a")
    world.settle(2)
    assert world.job("a").suspend
    assert "it can have 2 h 47 min with 1 card now" in told(world, "a")
    world.finish("other")
    world.settle(2)
    assert world.job("a").parallelism == 2


def test_what_a_job_with_a_goal_can_have_later_is_said_with_the_time_where_that_is_known() -> None:
    world = World(rules=EAGER, rates="m Z100 1:1 2:2 4:4")
    world.queue("other", 3, annotations={"vgpu.io/expected-duration": "50m"})
    world.settle(2)
    sized(world, "a")
    world.settle(2)
    assert "1 h 24 min with 2 cards in about 50 min" in told(world, "a")


def test_a_job_of_which_no_rate_is_known_starts_as_it_is_written_and_says_so(world: World) -> None:
    sized(world, "a")
    world.settle(2)
    assert (world.job("a").suspend, world.job("a").parallelism) == (False, 1)
    assert told(world, "a") == (
        "runs with 1 pod; no rate is known of the model m: it is sized once its program has reported its progress for"
        " some minutes"
    )
    world.settle(160)
    assert "is not sized, because its program has reported no progress in 15 min: let it write" in told(
        world, "a"
    )
    assert not world.job("a").suspend


IN_A = NodeConstraints((Requirement("zone", Operator.IN, ("a",)),))


@pytest.fixture
def zones() -> World:
    world = World(cards=2, rules=EAGER, nodes=("n1", "n2", "n3"))
    world.change_node("n1", labels={"zone": "a"})
    return world


def test_a_job_for_a_full_node_waits_though_others_are_free(zones: World) -> None:
    zones.queue("a", 2, nodes=IN_A)
    zones.queue("b", 1, nodes=IN_A)
    zones.settle()
    assert (zones.job("a").suspend, zones.job("b").suspend) == (False, True)
    limits = "its pods go only to nodes with zone=a (1 of 3 nodes)"
    kept = "it is due: cards are kept for it on n1, and when all of them are free is not known"
    assert told(zones, "b") == f"waits for room for 1 of its pods; {kept}; {limits}"
    zones.queue("c", 4)
    zones.settle(2)
    assert not zones.job("c").suspend, "it may go to the others"
    zones.finish("a")
    zones.settle(2)
    assert not zones.job("b").suspend


def test_only_jobs_that_hold_cards_where_it_may_go_shrink_for_another(zones: World) -> None:
    zones.queue("a", 2, least=1, nodes=IN_A)
    zones.settle(2)
    zones.queue("wide", 4, least=1)
    zones.settle(2)
    zones.queue("b", 1, nodes=IN_A)
    zones.settle(20)
    widths = [zones.job(name).parallelism for name in ("a", "wide", "b")]
    assert (widths, zones.job("b").suspend) == ([1, 4, 1], False)


def test_labels_and_taints_that_change_later_count_in_the_next_round(zones: World) -> None:
    zones.change_node("n1", taints=(Taint("team", "x"),))
    zones.queue("a", 2, nodes=IN_A)
    zones.queue("large", 6)
    zones.settle(3)
    assert (zones.job("a").suspend, zones.job("large").suspend) == (True, True)
    assert "1 of 1 nodes are cordoned or have a taint that its pods do not tolerate" in told(zones, "a")
    assert told(zones, "large").startswith(
        "needs 6 replicas, and 4 fit even if nothing else runs: ask for fewer, or"
    )
    zones.change_node("n2", labels={"zone": "a"})
    zones.settle(3)
    assert not zones.job("a").suspend
    zones.finish("a")
    zones.change_node("n1", taints=())
    zones.settle(3)
    assert not zones.job("large").suspend


CLOSED: Mapping[str, Callable[[Node], Node]] = {
    "card n2-1 of node n2 is cordoned": lambda node: replace(node, cordoned="n2-1"),
    "card n2-1 of node n2 is unhealthy": lambda node: replace(
        node, inventory=Inventory((card("n2-0"), card("n2-1", healthy=False))).encode()
    ),
    "card n2-0 of node n2 has no agent that serves": lambda node: replace(
        node, inventory=replace(inventory("n2"), serving=False).encode()
    ),
    "card n2-0 of node n2 is on a node that is cordoned": lambda node: replace(
        node, taints=(Taint("node.kubernetes.io/unschedulable"),)
    ),
}


@pytest.mark.parametrize("said", CLOSED)
def test_a_job_waits_for_a_card_that_is_only_closed_and_starts_when_it_opens(pair: World, said: str) -> None:
    opened = pair.nodes["n2"]
    pair.nodes["n2"] = CLOSED[said](opened)
    pair.engine.see_node(pair.nodes["n2"])
    pair.queue("four", 4)
    pair.queue("one", 1)
    pair.settle(3)
    text = told(pair, "four")
    assert text.startswith("waits for room for 4 of its pods; ")
    assert "needs 4 replicas, and " in text
    assert said in text
    assert (pair.job("four").suspend, pair.job("one").suspend) == (True, False), "others need not wait for it"
    assert "refused" not in {state.phase.value for state in pair.engine.rounds.last.states.values()}
    pair.finish("one")
    pair.nodes["n2"] = opened
    pair.engine.see_node(opened)
    pair.settle(3)
    assert not pair.job("four").suspend


@pytest.fixture
def pair() -> World:
    return World(cards=2, rules=EAGER, nodes=("n1", "n2"))


def test_a_rigid_job_whose_node_died_lets_others_have_its_cards_and_waits(pair: World) -> None:
    pair.queue("a", 4)
    pair.settle(3)
    pair.queue("b", 2)
    pair.lose_node("n2")
    pair.settle(15)
    assert (pair.job("a").suspend, pair.job("b").suspend) == (False, True), "the node may come back"
    pair.settle(8)
    assert (pair.job("a").suspend, pair.job("b").suspend) == (True, False)
    pair.join_node("n2")
    pair.settle(3)
    assert pair.job("a").suspend, "all of its pods start, or none"
    pair.finish("b")
    pair.settle(3)
    assert not pair.job("a").suspend
    assert len([pod for pod in pair.of(pair.job("a")) if pod.node]) == 4


def test_a_job_whose_node_comes_back_in_time_is_not_stopped(pair: World) -> None:
    pair.queue("a", 4)
    pair.settle(3)
    pair.lose_node("n2")
    pair.settle(15)
    pair.api.patches.clear()
    pair.join_node("n2")
    pair.settle(30)
    assert pair.api.patches == []
    assert all(pod.node for pod in pair.of(pair.job("a")))


def test_why_a_job_was_stopped_whose_pods_found_no_room(pair: World) -> None:
    pair.queue("a", 4)
    pair.settle(3)
    pair.lose_node("n2")
    pair.join_node("n3", 1)
    pair.settle(30)
    why = "was stopped because some of its pods found no room, and waits for room for 4 of its pods"
    assert told(pair, "a").startswith(f"{why}; cards are kept for it from ")


def test_an_elastic_job_whose_node_died_goes_on_with_the_others_and_grows_again(pair: World) -> None:
    pair.queue("a", 4, least=2)
    pair.settle(3)
    pair.lose_node("n2")
    pair.settle(30)
    assert (pair.job("a").suspend, pair.job("a").parallelism) == (False, 2)
    assert sorted(pod.index or 0 for pod in pair.of(pair.job("a"))) == [0, 1]
    pair.join_node("n2")
    pair.settle(30)
    assert pair.job("a").parallelism == 4
    assert all(pod.node for pod in pair.of(pair.job("a")))


def test_a_job_whose_node_died_goes_on_with_one_of_its_listed_widths(pair: World) -> None:
    pair.join_node("n3", 1)
    pair.queue("a", 5, annotations={"vgpu.io/widths": "1,2,5"})
    pair.settle(3)
    pair.lose_node("n1")
    pair.settle(30)
    assert (pair.job("a").suspend, pair.job("a").parallelism) == (False, 2), "three pods are left"


def test_a_job_whose_list_changes_runs_on_and_changes_to_a_listed_width(pair: World) -> None:
    pair.queue("a", 3, annotations={"vgpu.io/widths": "1,3"})
    pair.settle(3)
    before = pair.job("a")
    pair.api.put(replace(before, annotations={**before.annotations, "vgpu.io/widths": "1,2,8"}))
    pair.settle(3)
    assert (pair.job("a").suspend, pair.job("a").parallelism, len(pair.of(before))) == (False, 3, 3)
    pair.queue("b", 2)
    pair.settle(900)
    assert (pair.job("a").parallelism, pair.job("b").suspend) == (2, False)


def test_an_elastic_job_that_lost_more_than_its_minimum_stops(pair: World) -> None:
    pair.queue("a", 4, least=3)
    pair.settle(3)
    pair.lose_node("n2")
    pair.settle(30)
    assert pair.job("a").suspend
    assert pair.of(pair.job("a")) == []


def test_a_group_stops_together_where_one_of_its_jobs_found_no_room(pair: World) -> None:
    group = {"vgpu.io/queue": "default", "vgpu.io/group": "g"}
    pair.queue("a", 2, labels=group)
    pair.queue("b", 2, labels=group)
    pair.settle(3)
    assert not pair.job("a").suspend
    pair.lose_node("n2")
    pair.settle(30)
    assert (pair.job("a").suspend, pair.job("b").suspend) == (True, True)


def test_pods_that_wait_though_there_is_room_stop_nobody(pair: World) -> None:
    pair.queue("a", 4)
    pair.settle(2)
    pod = next(pod for pod in pair.of(pair.job("a")) if pod.node == "n2")
    pair.api.remove_pod(pod)
    pair.cards = [card for card in pair.cards if card[0] != "n2"]
    pair.settle(40)
    assert not pair.job("a").suspend


def test_a_job_is_started_elsewhere_though_its_pods_on_a_dead_node_never_end(pair: World) -> None:
    pair.queue("a", 4, replacement="TerminatingOrFailed")
    pair.settle(3)
    pair.queue("b", 2)
    pair.crash_node("n2")
    pair.settle(30)
    assert (pair.job("a").suspend, pair.job("b").suspend) == (True, False)
    pair.join_node("n3", 4)
    pair.settle(20)
    assert not pair.job("a").suspend
    running = [pod for pod in pair.of(pair.job("a")) if not pod.deleting]
    assert [pod.node for pod in running] == ["n3"] * 4


def test_pods_that_are_replaced_at_once_need_room_beside_those_on_a_dead_node(pair: World) -> None:
    pair.join_node("n3")
    pair.queue("a", 4, replacement="TerminatingOrFailed")
    pair.settle(3)
    pair.queue("b", 2)
    pair.settle(1)
    assert not pair.job("b").suspend
    pair.finish("b")
    pair.crash_node("n2")
    pair.queue("c", 2)
    pair.settle(40)
    assert (pair.job("a").suspend, pair.job("c").suspend) == (False, True), "its new pods are on n3"


def test_a_rigid_job_that_waits_for_pods_on_a_dead_node_lets_others_have_its_cards(pair: World) -> None:
    pair.queue("a", 4)
    pair.settle(3)
    pair.queue("b", 2)
    pair.crash_node("n2")
    pair.settle(15)
    assert not pair.job("a").suspend
    pair.settle(10)
    assert (pair.job("a").suspend, pair.job("b").suspend) == (True, False)
    pair.finish("b")
    pair.join_node("n3")
    pair.settle(20)
    assert pair.job("a").suspend, "Kubernetes would not replace what has not ended"
    pair.lose_node("n2")
    pair.settle(3)
    assert not pair.job("a").suspend


def test_an_elastic_job_goes_on_beside_pods_on_a_dead_node(pair: World) -> None:
    pair.queue("a", 4, least=2)
    pair.settle(3)
    pair.crash_node("n2")
    pair.api.patches.clear()
    pair.settle(40)
    assert pair.api.patches == []
    pair.lose_node("n2")
    pair.settle(40)
    assert (pair.job("a").suspend, pair.job("a").parallelism) == (False, 2)


def test_a_job_is_told_when_it_is_expected_to_start(world: World) -> None:
    world.queue("a", 4)
    world.settle(2)
    world.queue("b", 4)
    for step in range(200):
        world.tell("a", ProgressReport(progress=Progress(step, 1000)))
        world.turn()
    shown = views(world.engine.known, world.engine.planners)
    change = next(view.next_change for view in shown if view.name == "b")
    assert change is not None
    assert change.what == "is expected to start with 4 pods"
    assert change.at == pytest.approx(world.now + 800 * 6, rel=0.05)


def test_a_split_whose_author_lets_no_sub_task_run_holds_up_nobody() -> None:
    world = World()
    world.queue("frames", 1, completions=100, annotations={"vgpu.io/split": "any"})
    world.settle(4)
    world.api.put(replace(world.job("frames"), parallelism=0))
    world.queue("small", 1)
    world.settle(4)
    assert (world.job("small").suspend, world.job("small").active) == (False, 1)
    assert "parallelism is 0: write at least 1" in world.engine.known.problems()["default", "frames"][1]


def test_a_pod_that_has_ten_thousand_years_to_end_holds_up_nobody() -> None:
    world = World()
    world.queue("patient", 1)
    world.settle(3)
    world.lingers = True
    (pod,) = world.of(world.job("patient"))
    world.api.put_pod(structs.replace(pod, deleting=True, ends="11535-01-15T08:00:00Z"))
    world.queue("small", 1)
    world.settle(30)
    assert not world.job("small").suspend


# Looks that take long


def slow(world: World, seconds: float) -> None:
    """Each look at the ledger takes as long."""
    held, snapshot = world.engine.held, world.engine.held.snapshot

    def late() -> Snapshot:
        world.now += seconds
        return snapshot()

    held.snapshot = late


def test_what_a_look_decides_is_carried_out_however_long_it_takes() -> None:
    world = World(rules=EAGER)
    slow(world, FRESH_SECONDS + 1)
    world.queue("a", 2)
    world.queue("b", 2)
    world.queue("c", 4, 1)
    world.settle(3)
    assert [world.job(name).suspend for name in "abc"] == [False, False, True]
    world.finish("a")
    world.settle(4)
    assert (world.job("c").suspend, world.job("c").parallelism) == (False, 2)
    world.queue("d", 1)
    world.settle(60)
    assert (world.job("d").suspend, world.job("c").parallelism) == (False, 1), "a shrink is three writes"


def test_what_no_longer_fits_is_not_started_late() -> None:
    """Pods that are no Jobs' take the cards once the engine has looked at them."""
    world, looks = World(), 0
    view = world.engine.view
    world.queue("a", 4)

    def late() -> Snapshot:
        nonlocal looks
        looks += world.engine.rounds.last.at > 0
        world.now += FRESH_SECONDS + 1
        for number in range(4 if looks == 2 else 0):
            text = Grant(f"p{number}", "n1", {"main": (Slice(f"n1-{number}", CARD_MIB, CORES),)}).encode()
            other = Pod("default", f"p{number}", f"p{number}", node="n1", containers=ONE_CARD)
            world.api.put_pod(structs.replace(other, phase="Running", annotations={GRANT: text}))
        return view.snapshot()

    world.engine.held.snapshot = late
    world.engine.rounds.step()
    assert (looks, world.job("a").suspend) == (2, True)
