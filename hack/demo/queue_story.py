"""The chapter of `make demo` about Jobs in a queue: one gives way to another, and grows back."""

from collections.abc import Callable, Mapping
from functools import partial
from importlib import resources
from typing import Any

import yaml

from device_plugin.cli.access.engine import EngineError
from device_plugin.core.batch import COMPLETION_INDEX, JOB_NAME
from device_plugin.kube.api import JOBS, Ref
from hack.demo.demo_api import DemoApi
from hack.demo.show import StoryPage
from hack.demo.story import expect, two_free_cards
from hack.embedded.person import NAMESPACE, Object, phase

Row = Mapping[str, Any]


def tell(api: DemoApi, page: StoryPage) -> None:
    """Show the chapter. Raises CheckFailedError or NotInTimeError at the first check that fails."""
    page.title("Jobs in a queue: train gives way to evaluate, and grows back")
    text = resources.files("hack.demo").joinpath("jobs.yaml").read_text(encoding="utf-8")
    train, evaluate = yaml.safe_load_all(text)

    page.line("train asks for 4 pods of half a card each, and can run with 2")
    api.create(train)
    page.queue(_rows(api, "train to run with 4 pods", lambda row: _runs(row, "train", 4)))

    page.line("evaluate asks for half a card")
    api.create(evaluate)
    page.queue(_rows(api, "train to become narrower", lambda row: _is_wide(row, "train", 3)))
    page.why("evaluate", api.why("evaluate"))
    api.until("evaluate to run", partial(_runs_on, api, "evaluate", {"0"}))
    expect(
        _runs_on(api, "train", {"0", "1", "2"}), "the pods of train that stay are not those of index 0 to 2"
    )
    page.cards(api.cards())

    api.until("evaluate to end", lambda: api.api.get(JOBS, Ref("evaluate", NAMESPACE)).ended)
    page.line("evaluate has ended")
    page.queue(_rows(api, "train to grow back", lambda row: _runs(row, "train", 4)))
    api.until("4 pods of train to run", partial(_runs_on, api, "train", {"0", "1", "2", "3"}))
    page.events("train", api.until("events of train", partial(_grown, api)))
    for job in (train, evaluate):
        api.delete(job["metadata"]["name"], kind="Job")
    page.cards(api.until("both cards to be free", partial(two_free_cards, api)))


def _rows(api: DemoApi, what: str, is_there: Callable[[Row], bool]) -> list[Row]:
    """The Jobs of the queue, as soon as `is_there` is true for one; an engine that does not plan yet is asked again."""

    def look() -> list[Row] | None:
        try:
            rows = api.queue()
        except EngineError:
            return None
        return rows if any(map(is_there, rows)) else None

    return api.until(what, look)


def _is_wide(row: Row, name: str, width: int) -> bool:
    return (row["name"], row["width"]) == (name, width)


def _runs(row: Row, name: str, width: int) -> bool:
    return _is_wide(row, name, width) and bool(row["phase"] == "running")


def _runs_on(api: DemoApi, job: str, indexes: set[str]) -> bool:
    """True if exactly the Job's pods with these indexes run."""
    mine = [pod for pod in api.pods() if pod["metadata"].get("labels", {}).get(JOB_NAME) == job]
    return {_index(pod) for pod in mine if phase(pod) == "Running"} == indexes


def _index(pod: Object) -> str:
    return str(pod["metadata"]["annotations"][COMPLETION_INDEX])


def _grown(api: DemoApi) -> list[str] | None:
    """The engine's events about the Job train if the last one is JobGrown; otherwise None."""
    texts = [text for text in api.events("train") if text.startswith("Job")]
    return texts if texts[-1:] and texts[-1].startswith("JobGrown") else None
