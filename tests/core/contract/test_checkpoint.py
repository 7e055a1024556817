"""The request for a checkpoint as an annotation."""

import pytest

from device_plugin.core.contract.checkpoint import Checkpoint
from device_plugin.core.errors import AnnotationError


def test_what_is_written_is_read_back() -> None:
    made = Checkpoint(gen=7, until=1_795_000_000, saved=3)
    assert Checkpoint.decode(made.encode()) == made


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        '{"v":2,"gen":1,"until":1,"saved":0}',
        '{"v":1,"gen":0,"until":1,"saved":0}',
        '{"v":1,"gen":1}',
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(AnnotationError):
        Checkpoint.decode(text)
