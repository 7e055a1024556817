"""kubectl's words, without the lines of its log."""

import logging

import pytest

from device_plugin.cli.access import kubectl_says
from device_plugin.cli.access.kubectl_says import MOST_CHARACTERS, last_sentence

# As kubectl 1.36 writes it where the API server serves no discovery, or does not answer.
LOG = (
    'E1124 05:52:49.464210   30475 memcache.go:265] "Unhandled Error" err="couldn\'t get current server API group list:'
    ' Get \\"http://localhost:8080/api?timeout=32s\\": dial tcp 127.0.0.1:8080: connect: connection refused"\n'
)
REFUSED = "The connection to the server localhost:8080 was refused - did you specify the right host or port?"


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("", ""),
        ("\n \n", ""),
        (f"{LOG * 4}{REFUSED}\n", REFUSED),
        (f"{LOG}error: no resource type \"pods\"\n", 'no resource type "pods"'),
        (f"Warning: old\nError from server (NotFound): pods \"a\" not found\n{LOG}",
         'Error from server (NotFound): pods "a" not found'),
        (LOG * 2, "couldn't get current server API group list: Get \"http://localhost:8080/api?timeout=32s\": dial tcp"
                  " 127.0.0.1:8080: connect: connection refused"),
        ("I1124 05:52:49.464210 1 round_trippers.go:632] Response\n", "Response"),
        ("error: \x1b[31mred\n", "[31mred"),
        ("x" * 5000, "x" * MOST_CHARACTERS),
    ],
)  # fmt: skip
def test_the_last_sentence_is_shown(said: str, sentence: str) -> None:
    assert last_sentence(said) == sentence


def test_all_of_it_is_logged_for_who_asks(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, kubectl_says.__name__):
        last_sentence(f"{LOG}{REFUSED}\n")
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["kubectl", "kubectl"]
    assert "memcache.go:265" in caplog.text
