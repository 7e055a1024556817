"""Quotas: what counts against them."""

from typing import Any

import pytest

from hack.embedded.apiserver import errors, quotas
from tests.builders import objects

MEM = "example.com/mem"


def pod(phase: str = "Running", amount: int = 1) -> dict[str, Any]:
    asked = {"limits": {MEM: str(amount)}, "requests": {MEM: str(amount)}}
    return {**objects.pod("p", containers=[objects.container(resources=asked)]), "status": {"phase": phase}}


def quota(**hard: str) -> dict[str, Any]:
    named = {key.replace("mem", f"requests.{MEM}"): amount for key, amount in hard.items()}
    return {"metadata": {"name": "q"}, "spec": {"hard": named}}


def test_what_has_ended_holds_nothing() -> None:
    quotas.check(pod(), [pod("Failed"), pod("Succeeded"), pod()], [quota(mem="2", pods="2")])


@pytest.mark.parametrize(("hard", "named"), [({"pods": "1"}, "pods"), ({"mem": "1Ki"}, f"requests.{MEM}")])
def test_the_quota_that_is_exceeded_is_named(hard: dict[str, str], named: str) -> None:
    with pytest.raises(errors.StatusError, match=f"exceeded quota: q, requested: {named}=") as refused:
        quotas.check(pod(amount=1024), [pod()], [quota(mem="4Ki", pods="9"), quota(**hard)])
    assert (refused.value.code, refused.value.reason) == (403, "Forbidden")


def test_a_quota_of_what_is_not_counted_here_is_refused() -> None:
    with pytest.raises(errors.StatusError, match=r"limits\.cpu is not served here"):
        quotas.QuotaStrategy().default({"spec": {"hard": {"limits.cpu": "1"}}})
