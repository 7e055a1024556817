"""Lost steps are counted from the trainer's list."""

from pathlib import Path

from hack.elastic import steps
from hack.elastic.steps import Step
from hack.elastic.train import note


def test_what_the_trainer_notes_is_read(tmp_path: Path) -> None:
    path = tmp_path / "steps"
    assert steps.read_file(path) == []
    for step, world in ((1, 4), (2, 4), (3, 2)):
        note(path, step, world)
    assert steps.read_file(path) == [Step(1, 4), Step(2, 4), Step(3, 2)]


def test_a_line_that_is_being_written_is_left_out() -> None:
    assert steps.read("1 4\n2 4\n13 1") == [Step(1, 4), Step(2, 4)]


def test_steps_done_again_were_lost() -> None:
    done = [Step(number, 3) for number in (1, 2, 3, 4)]
    assert steps.lost(done) == 0
    assert steps.lost([*done, Step(3, 2), Step(4, 2), Step(5, 2)]) == 2
    assert steps.lost([*done, Step(3, 2), Step(3, 1)]) == 2


def test_world_sizes_as_they_came() -> None:
    assert steps.worlds([Step(1, 4), Step(2, 4), Step(3, 2), Step(4, 4)]) == [4, 2, 4]
