"""A proxy names users only with its secret, and never Kubernetes' own."""

from email.message import Message

import pytest

from device_plugin.cli.ui.team.proxy import SECRET_HEADER, ProxyLogin
from device_plugin.cli.ui.team.visitor import MOST_GROUPS, Person

SECRET = "s" * 32
GOOD = [(SECRET_HEADER, SECRET), ("X-User", "anna"), ("X-Groups", "dev, ops"), ("X-Groups", "ops")]


def person(headers: list[tuple[str, str]], groups: str = "X-Groups") -> Person | None:
    message = Message()
    for name, value in headers:
        message[name] = value
    return ProxyLogin("X-User", groups, SECRET).person(message)


def test_names_are_read_as_utf_8() -> None:
    """The server reads bytes of headers as Latin-1: another name than the one that RBAC knows."""
    sent = [
        (name, value.encode().decode("latin-1"))
        for name, value in (("X-User", "rené"), ("X-Groups", "é,日本"))
    ]
    assert person([GOOD[0], *sent]) == Person("rené", groups=("system:authenticated", "é", "日本"))
    assert person([GOOD[0], ("X-User", "ren\xe9")]) is None


def test_the_user_and_the_groups_that_a_proxy_names() -> None:
    assert person(GOOD) == Person("anna", groups=("dev", "ops", "system:authenticated"))
    assert person(GOOD, "") == Person("anna", groups=("system:authenticated",))


@pytest.mark.parametrize(
    "headers",
    [
        GOOD[1:],
        [(SECRET_HEADER, ""), *GOOD[1:]],
        [(SECRET_HEADER, SECRET[1:]), *GOOD[1:]],
        [(SECRET_HEADER, "ü"), *GOOD[1:]],
        [GOOD[0], *GOOD],
        [(SECRET_HEADER, "guess"), *GOOD],
        GOOD[:1],
        [*GOOD, ("X-User", "bert")],
        [GOOD[0], ("X-User", "")],
        [GOOD[0], ("X-User", "a" * 300)],
        [GOOD[0], ("X-User", "system:admin")],
        [*GOOD, ("X-Groups", "system:masters")],
        [*GOOD, ("X-Groups", "dev,system:nodes")],
        [*GOOD, ("X-Groups", ",".join(f"g{i}" for i in range(MOST_GROUPS + 1)))],
    ],
    ids=str,
)
def test_anything_else_is_nobody(headers: list[tuple[str, str]]) -> None:
    assert person(headers) is None
