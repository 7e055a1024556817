import pytest

from tests.transcript import Step, commands, difference, documents, files, matches, steps

PAGE = """\
# Page
```sh
zero
```
```yaml
kind: Node
```
## First
```yaml
# a.yaml
kind: Pod
```
```console
$ one \\
    --more
line
$ two
```
## Second
```sh
four five
six
```
```console
$ three
```
```yaml
kind: Job
---
kind: Service
```
"""


def test_steps_and_files_of_a_page() -> None:
    assert list(steps(PAGE)) == [
        Step("First", "one --more", ("line",)), Step("First", "two", ()), Step("Second", "three", ()),
    ]  # fmt: skip
    assert files(PAGE) == {"a.yaml": "kind: Pod\n"}


def test_commands_and_documents_of_a_section() -> None:
    assert commands(PAGE) == ["zero"]
    assert commands(PAGE, "Second") == ["four five", "six"]
    assert documents(PAGE) == [{"kind": "Node"}]
    assert documents(PAGE, "First") == [{"kind": "Pod"}]
    assert documents(PAGE, "Second") == [{"kind": "Job"}, {"kind": "Service"}]


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a  b", "a b", True),
        ("a b", "a c", False),
        ("since 5s", "since 2m10s", True),
        ("████░░ 4/16", "██░░░░░░ 4/16", True),
        ("████░░ 4/16", "██░░░░░░ 5/16", False),
        ("pod/a-… created", "pod/a-x1 created", True),
        ("pod/a-… created", "pod/b-x1 created", False),
    ],
)
def test_a_line_matches(shown: str, printed: str, *, same: bool) -> None:
    assert matches(shown, printed) is same


@pytest.mark.parametrize(
    ("shown", "printed", "wrong"),
    [
        (["a", "b"], ["a", "", "b"], ""),
        (["a"], ["a", "b"], "not shown: b"),
        (["a", "b"], ["a"], "shown:   b\nprinted: (nothing more)"),
        (["a", "…", "z"], ["a", "b", "c", "z"], ""),
        (["a", "…"], ["a", "b"], ""),
        (["…", "z"], ["a", "b"], "shown:   z\nprinted: (nothing more)"),
    ],
)
def test_the_first_difference(shown: list[str], printed: list[str], wrong: str) -> None:
    assert difference(shown, printed) == wrong
