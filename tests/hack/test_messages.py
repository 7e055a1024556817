"""The page of messages has every message of the source, and what it finds is what people read."""

import re

import pytest
import yaml

from device_plugin.cli import cards
from device_plugin.cli.check.checks import CHECKS
from device_plugin.core.contract.events import Event
from device_plugin.core.contract.reasons import Reason
from device_plugin.core.pod_states import PodState
from device_plugin.jobs.show import views
from hack.generate.reference import messages
from hack.generate.reference.cel_text import text_of
from hack.generate.reference.messages import (
    ROOT,
    calls,
    complaints,
    error_classes,
    instructs,
    policy_messages,
    sentences,
)
from hack.generate.reference.states import STATES

# Errors that pass on the text of another error or function, by file. What these say is on the page by itself.
PASSED_ON = {
    "device_plugin/adapters/kube/client.py": 2,
    "device_plugin/adapters/yaml_text.py": 1,
    "device_plugin/cli/run/objects.py": 1,
    "device_plugin/cli/why.py": 2,
    "device_plugin/core/jobs/workload_reading.py": 1,
    "device_plugin/core/requests.py": 1,
    "device_plugin/node/stages/allocate.py": 1,
    "device_plugin/node/stages/start.py": 1,
    "device_plugin/wiring/failures.py": 1,
    "device_plugin/wiring/setting_sources.py": 1,
}


@pytest.fixture(scope="module")
def page() -> str:
    """Returns the page, which takes 2 s to make."""
    return messages.page()


def test_every_reason_state_and_event_is_there(page: str) -> None:
    for each in (*Reason, *PodState):
        assert each.text in page
        assert each.advice in page
    assert all(f"| `{event}` |" in page for event in Event)
    assert len(messages.refusals()) > 5
    assert all(messages.shown(each) in page for each in messages.refusals())


def test_every_error_that_is_made_is_there_or_passes_on_another_text(page: str) -> None:
    found = list(calls(tuple(error_classes())))
    unread: dict[str, int] = {}
    for each in found:
        if each.text is None:
            unread[each.file] = unread.get(each.file, 0) + 1
        else:
            assert messages.shown(each.text) in page, f"{each.file}:{each.line}"
    assert unread == PASSED_ON, "write the text where the error is made, or name the file here"
    # The source is searched in another way: no class of errors that is raised anywhere is overlooked.
    raised = {
        name
        for file in (ROOT / "device_plugin").rglob("*.py")
        for name in re.findall(r"raise (\w+Error)\(", file.read_text(encoding="utf-8"))
    }
    assert raised & error_classes().keys() <= {each.made_by for each in found}


def test_every_error_says_what_to_do_or_its_class_does() -> None:
    for each in calls(tuple(error_classes())):
        cause, cure = messages.about_error(error_classes()[each.made_by])
        assert cause, each.made_by
        assert each.text is None or instructs(each.text) or cure, f"{each.file}:{each.line}: {each.text}"
    assert not instructs("inventory: two cards have the same uuid")
    assert instructs("inventory: two cards have the same uuid: change one")


def test_every_refusal_and_problem_says_what_to_do() -> None:
    assert all(instructs(text) or advice for text, advice in messages.refusals().items() if named(text))
    for file in (file for files in messages.PROBLEMS.values() for file in files):
        assert all(instructs(text) for text in sentences(file) if named(text)), file


def test_a_refusal_that_is_no_mistake_in_a_gang_does_not_ask_to_correct_it() -> None:
    for words in ("labels of the pod were changed just now", "the pod is being deleted, or has ended"):
        assert [advice for text, advice in messages.refusals().items() if words in text] == [""]


def test_a_refusal_is_shown_as_people_read_it() -> None:
    found = messages.refusals()
    assert not [text for text in found if re.search(r"[a-z]{3}[A-Z]{2}", text)]
    assert any("pods: the search for a place" in text for text in found)


def named(text: str) -> bool:
    """False for a text that ends with another one, which says what to do, and for a part of a text."""
    return text == text.strip() and not re.search(r"(…|: [A-Z]+)$", text)


def test_every_state_is_one_that_the_product_prints(page: str) -> None:
    product = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "device_plugin").rglob("*.py"))
    for state in STATES:
        assert state.text in product, state.text
        assert state.text in page
        assert state.advice
    shown = {state.text for state in STATES}
    assert shown >= {*views.WAITS_FOR.values(), views.GIVEN, views.CORRECTION, *cards.STATES.values()}


def test_what_convert_remarks_is_there(page: str) -> None:
    for kind in ("remarks", "problems"):
        found = messages.conversions(kind)
        assert len(found) > 3
        assert all(messages.shown(each) in page for each in found)


def test_every_policy_says_something_for_each_of_its_validations(page: str) -> None:
    count = 0
    for folder in messages.POLICIES:
        for file in (ROOT / folder).glob("*.yaml"):
            for policy in yaml.safe_load_all(file.read_text(encoding="utf-8")):
                if policy["kind"] == "ValidatingAdmissionPolicy":
                    for text in policy_messages(policy):
                        count += 1
                        assert len(re.findall(r"\w{2,}", text)) >= 3, f"{file.name}: {text}"
                        assert messages.shown(text) in page
    assert count > 50


@pytest.mark.parametrize(
    "file", [*messages.ANSWERS, *(file for files in messages.PROBLEMS.values() for file in files)]
)
def test_every_problem_is_there(file: str, page: str) -> None:
    found = list(sentences(file))
    assert found
    assert all(messages.shown(each) in page for each in found)


def test_every_line_of_the_library_is_there(page: str) -> None:
    found = list(complaints())
    assert len(found) >= 4
    assert all(messages.shown(each) in page for each in found)


def test_every_check_has_a_message_with_a_cure(page: str) -> None:
    rows = [
        line
        for line in page.partition("## Checks of")[2].partition("\n## ")[0].splitlines()
        if line[:3] == "| `"
    ]
    assert len(rows) > len(CHECKS)
    assert all("| `…` |" not in row for row in rows)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ('"container " + c.name + ": write 1"', "container …: write 1"),
        ("'a \"b\" ' + x.join(', ')", 'a "b" …'),
        ('"n is " + (a > 1 ? "many" : "few: " + s) + "!"', "n is many/few: …!"),
        ('"x" + (a ? "1" : b ? "2" : "3")', "x1/2/3"),
        ('v.found[0].map(e, "on " + e[0] + ": " + e[1])[0]', "on …: …"),
    ],
)
def test_the_text_of_an_expression_is_read(expression: str, text: str) -> None:
    assert text_of(expression) == text
