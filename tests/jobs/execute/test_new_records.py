"""New records: later than those that they replace, with what outlasts a change, and deadlines that no removal moves."""

from dataclasses import replace

import pytest

from device_plugin.core.contract.annotations import GRANT
from device_plugin.core.contract.checkpoint import Checkpoint
from device_plugin.jobs.execute.new_records import ASK_SECONDS, LATER, MOST_ASKED, NewRecords, grants_of
from device_plugin.jobs.execute.writes import JOIN_SECONDS
from tests.builders.batch_jobs import job, managed, replica, resize
from tests.builders.pods import main
from tests.jobs.execute.world import grant

NOW = 1010.5


@pytest.mark.parametrize(("asked", "gen"), [(7, 8), (MOST_ASKED, MOST_ASKED + 1), (MOST_ASKED + 1, 4)])
def test_its_number_is_greater_than_all_that_count(asked: int, gen: int) -> None:
    made = replace(managed(job("a", 2), record=resize(1, 2, gen=3)), checkpoint=Checkpoint(asked, 0, 0))
    assert NewRecords(NOW).new(made, before=2, after=1, until=NOW).gen == gen


def test_it_is_later_than_the_records_that_it_replaces_whatever_the_clocks_say() -> None:
    ahead = managed(job("a", 2), record=resize(1, 2, asked=2000.0))
    assert NewRecords(NOW).later(managed(job("b"))) == 1010.0
    assert NewRecords(NOW).later(managed(job("b")), ahead) == 2000.0 + LATER


def test_counts_that_outlast_a_change_are_copied_and_a_refusal_is_not() -> None:
    last = resize(1, 2, unsaved=1, spared_until=5.0, refusals=2, stopped_for=9.0)
    quiet = NewRecords(NOW).new(managed(job("a", 2), record=last), before=2, after=1, until=NOW)
    assert (quiet.unsaved, quiet.spared_until, quiet.refusals, quiet.stopped_for) == (1, 5.0, 0, 9.0)
    refused = managed(job("a", 2), record=replace(last, refusal="quota"))
    again = NewRecords(NOW).new(refused, before=2, after=1, until=NOW)
    assert (again.refusals, again.refusal) == (2, "")


def test_who_removes_a_change_gives_his_program_no_further_time_to_save() -> None:
    made = managed(job("a", 2))
    made = replace(made, spec=replace(made.spec, checkpoint_seconds=600.0))
    records = NewRecords(NOW)
    assert records.narrow_by(made) == NOW + ASK_SECONDS + 600.0 + JOIN_SECONDS
    asked = replace(made, checkpoint=Checkpoint(1, 1100, 0))
    assert records.narrow_by(asked) == 1100 + JOIN_SECONDS


def test_a_malformed_grant_promises_nothing() -> None:
    of = job("a", 2)
    sound, broken = (
        replica(of, index, annotations={GRANT: text}, containers=(main({}),))
        for index, text in enumerate([grant("uid-a-0", "GPU-0").encode(), "rubbish"])
    )
    assert [each.pod for each in grants_of([sound, broken])] == ["uid-a-0"]
