"""Each reader gets the newest value of every entry that changed since it last asked, and nothing is kept for it."""

import json
import random
import threading

from device_plugin.cli.ui import entries as module
from device_plugin.cli.ui.entries import Changes, PageEntries


def told(changes: Changes) -> dict[tuple[str, str], object]:
    return {(kind, key): value for kind, key, value in map(json.loads, changes.texts)}


def test_a_reader_gets_what_changed_and_each_entry_once() -> None:
    entries = PageEntries()
    entries.put("day", {"n1": {"cards": 1}, "n2": {"cards": 2}})
    first = entries.since(0, 0)
    assert (first.anew, told(first)) == (True, {("day", "n1"): {"cards": 1}, ("day", "n2"): {"cards": 2}})
    for cards in range(5):
        entries.put("day", {"n1": {"cards": cards}})
    second = entries.since(first.version, 0)
    assert (second.anew, told(second)) == (False, {("day", "n1"): {"cards": 4}})
    entries.put("day", {"n1": {"cards": 4}})
    assert entries.since(second.version, 0) == Changes(second.version, anew=False, texts=[])


def test_a_removed_entry_is_told_as_null_once_and_may_come_back() -> None:
    entries = PageEntries()
    entries.replace("job", {"a": 1, "b": 2})
    entries.put("node", {"a": 1})
    seen = entries.since(0, 0).version
    entries.replace("job", {"b": 2})
    entries.put("job", {"never": None})
    changes = entries.since(seen, 0)
    assert told(changes) == {("job", "a"): None}
    assert entries.keys("job") == {"b"}
    entries.put("job", {"a": 1})
    assert told(entries.since(changes.version, 0)) == {("job", "a"): 1}


def test_a_reader_that_is_behind_forgotten_removals_gets_all_anew() -> None:
    entries = PageEntries()
    many = {f"p{i}": 1 for i in range(module.MOST_REMOVED + 1)}
    entries.put("waiting", {"stays": 1, **many})
    behind = entries.since(0, 0).version
    entries.put("waiting", dict.fromkeys(many))
    changes = entries.since(behind, 0)
    assert changes.anew
    # Removals that are remembered may be told again: they do no harm.
    assert {key for key, value in told(changes).items() if value is not None} == {("waiting", "stays")}
    assert len([*changes.texts]) <= module.MOST_REMOVED + 1


def test_a_reader_waits_for_the_first_change() -> None:
    entries = PageEntries()
    entries.put("node", {"n1": 1})
    seen = entries.since(0, 0).version
    found: list[Changes] = []
    reader = threading.Thread(target=lambda: found.append(entries.since(seen, 30)))
    reader.start()
    entries.put("node", {"n1": 2})
    reader.join(30)
    assert told(found[0]) == {("node", "n1"): 2}


def test_readers_at_any_time_end_with_the_same_entries() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    entries, truth = PageEntries(), dict[tuple[str, str], object]()
    seen: dict[tuple[str, str], object] = {}
    version = 0
    for _ in range(3000):
        name = (rng.choice("ab"), str(rng.randrange(1500)))
        value = rng.choice((None, 1, 2, 3))
        entries.put(name[0], {name[1]: value})
        truth[name] = value
        if rng.random() < 0.002:
            changes = entries.since(version, 0)
            version = changes.version
            seen = {**({} if changes.anew else seen), **told(changes)}
    changes = entries.since(version, 0)
    seen = {**({} if changes.anew else seen), **told(changes)}
    assert {k: v for k, v in seen.items() if v} == {k: v for k, v in truth.items() if v}
