"""The page for a team on a real cluster: two users with rights to one namespace each see no name of the other."""

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from playwright.sync_api import expect

from hack.measure.chromium import NoChromiumError, chromium
from tests.e2e import nodes
from tests.e2e.kubectl import Kubectl
from tests.e2e.service import SYSTEM
from tests.e2e.slices import grant
from tests.e2e.team_pages import SECONDS, ask, check_attacks, forwarded, logged_in, stream
from tests.e2e.waiting import eventually
from tests.e2e.workloads import slice_pod
from tests.pages import PROJECT
from tests.requirement import require

PATHS = ("/session", "/use?node=x&card=y", "/day", "/why?pod={other}/waits", "/none", "/", "/main.js")


class User(NamedTuple):
    """A service account that may view its own namespace only, with a token of it."""

    namespace: str
    token: str


def objects(tmp_path: Path) -> Sequence[dict[str, Any]]:
    """Returns the objects of the component `ui`, with changes allowed."""
    manifests = os.path.relpath(PROJECT / "manifests", tmp_path.resolve())
    content = {"resources": [f"{manifests}/overlays/simulated"], "components": [f"{manifests}/components/ui"]}
    (tmp_path / "kustomization.yaml").write_text(json.dumps(content))
    text = subprocess.run(
        ["kubectl", "kustomize", str(tmp_path)], capture_output=True, text=True, check=True
    ).stdout
    ours = [found for found in yaml.safe_load_all(text) if found["metadata"]["name"] == "vgpu-ui"]
    (deployment,) = (found for found in ours if found["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (changes,) = (each for each in container["env"] if each["name"] == "VGPU_ALLOW_CHANGES")
    changes["value"] = "true"
    return ours


@pytest.fixture
def page(tmp_path: Path) -> Iterator[str]:
    """The address of the page for a team, which is there while the test lasts."""
    wanted = objects(tmp_path)
    assert len(wanted) == 5
    SYSTEM.apply(*wanted)
    try:
        SYSTEM("rollout", "status", "deployment/vgpu-ui", "--timeout=300s")
        with forwarded() as address:
            yield address
    finally:
        for found in wanted:
            SYSTEM("delete", found["kind"], found["metadata"]["name"], "--wait=false")


@pytest.fixture
def users(kubectl: Kubectl) -> Iterator[Sequence[User]]:
    """Two users, in the test's namespace and in another one."""
    other = Kubectl(f"{kubectl.namespace}-other")
    SYSTEM("create", "namespace", other.namespace)
    found = []
    for where in (kubectl, other):
        where("create", "serviceaccount", "person")
        subject = f"--serviceaccount={where.namespace}:person"
        where("create", "rolebinding", "person", "--clusterrole=view", subject)
        found.append(User(where.namespace, where("create", "token", "person").strip()))
    yield found
    SYSTEM("delete", "namespace", other.namespace, "--wait=false")


def test_two_users_see_their_own_namespace_and_no_name_of_the_other(page: str, users: Sequence[User]) -> None:
    for user in users:
        where = Kubectl(user.namespace)
        where.create(
            slice_pod("holder", mem=2, cores=5, **nodes.on(nodes.first())), slice_pod("too-large", mem=512)
        )
        assert eventually(lambda where=where: grant(where, "holder"), SECONDS)  # type: ignore[misc]

    first, second = users
    for user, other in ((first, second), (second, first)):
        cookie = logged_in(page, user.token)
        own = f'"waiting","{user.namespace}/too-large"'
        used = f'"use","{nodes.first()} {user.namespace}"'
        text = stream(
            page, cookie, ["event: ready", own, '"holder"', used, f'"owner","{user.namespace}/Pod holder"']
        )
        # The name of one namespace is the beginning of the other's.
        hidden = json.dumps(other.namespace)
        assert own in text
        assert hidden not in text
        assert f"{other.namespace}/" not in text
        for path in PATHS:
            answered = ask(page, path.format(other=other.namespace), cookie)[2]
            assert hidden not in answered
            assert f"{other.namespace}/" not in answered
        # The API server refuses the change, and names the person whose token it was sent with.
        csrf = json.loads(ask(page, "/session", cookie)[2])["csrf"]
        change = json.dumps({"action": "cordon", "node": nodes.first(), "card": "any"})
        status, _, why = ask(page, "/change", cookie, "POST", change, csrf)
        assert (status, f"system:serviceaccount:{user.namespace}:person" in why) == (403, True), why
    assert ask(page, "/login", "", "POST", json.dumps({"token": f"{first.token}x"}))[0] == 401
    assert ask(page, "/changes", "vgpu=guess")[0] == 401
    check_attacks(page, first.token)
    in_a_browser(page, first)
    log = SYSTEM("logs", "deployment/vgpu-ui")
    assert not [user for user in users if user.token[-40:] in log]
    for user in users:
        Kubectl(user.namespace)("delete", "pod", "--all", "--wait=false")


def in_a_browser(address: str, user: User) -> None:
    """A person logs in with a token, sees the own pod, and logs out."""
    try:
        with chromium() as browser:
            shown = browser.new_page(viewport={"width": 1600, "height": 1200})
            shown.goto(f"http://{address}/#/waiting")
            shown.get_by_label("Token").fill(user.token)
            shown.get_by_role("button", name="Log in").click()
            expect(shown.locator("#who")).to_contain_text(f"system:serviceaccount:{user.namespace}:person")
            expect(shown.locator(".item")).to_contain_text("too-large")
            kept = shown.evaluate("[location.href, document.cookie, {...localStorage}, {...sessionStorage}]")
            assert kept == [f"http://{address}/#/waiting", "", {}, {}]
            shown.get_by_role("button", name="Log out").click()
            expect(shown.locator("#login")).to_be_visible()
    except NoChromiumError as error:
        require(condition=False, reason=str(error))
