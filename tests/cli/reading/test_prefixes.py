"""Whose cards a command counts: by the option, by the installation, and without rights to read it."""

from argparse import Namespace
from typing import Any

import pytest
import yaml

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli.reading import prefixes
from device_plugin.kube.api import Kind, Named
from device_plugin.kube.errors import ForbiddenError, GoneError, RefusedError
from vgpu_runtime.paths import SOURCES

MANIFEST = SOURCES.parent / "manifests/base/cluster/deployment.yaml"
DEPLOYMENT = next(each for each in yaml.safe_load_all(MANIFEST.read_text()) if each["kind"] == "Deployment")


class Installation(KubeClient):
    """A client of a cluster with this Deployment of the cluster service, or with a reason why there is none."""

    def __init__(self, found: dict[str, Any] | Exception) -> None:
        self._found = found

    def get(self, kind: Kind[Any], of: Named) -> Any:
        assert (kind.plural, of.name, of.namespace) == ("deployments", "vgpu-cluster", "vgpu-system")
        if isinstance(self._found, Exception):
            raise self._found
        assert kind.parse is not None
        return kind.parse(self._found)


def installed(families: str) -> dict[str, Any]:
    env = [{"name": "OTHER", "valueFrom": {}}, {"name": "FAMILIES", "value": families}]
    spec = {"template": {"spec": {"containers": [{"name": "first"}, {"env": env}]}}}
    return {"metadata": {"namespace": "vgpu-system"}, "spec": spec}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (installed("vendor.com/a,vendor.com/b"), ("vendor.com/a", "vendor.com/b")),
        (installed(""), prefixes.KNOWN),
        (DEPLOYMENT, ("from parameters.yaml",)),  # the variable is there, and kustomize writes it
        (GoneError("none"), prefixes.KNOWN),
        (ForbiddenError("may not", 403, "Forbidden"), prefixes.KNOWN),
    ],
)
def test_without_the_option_they_are_those_of_the_installation(
    found: dict[str, Any] | Exception, expected: tuple[str, ...]
) -> None:
    assert prefixes.of(Installation(found), Namespace(prefixes=None)) == expected


def test_another_refusal_is_an_error() -> None:
    with pytest.raises(RefusedError):
        prefixes.of(Installation(RefusedError("too many", 429)), Namespace(prefixes=None))


def test_the_option_comes_first_and_nothing_is_read() -> None:
    args = Namespace(prefixes="vendor.com/a, vendor.com/b")
    assert prefixes.of(Installation(AssertionError()), args) == ("vendor.com/a", "vendor.com/b")


@pytest.mark.parametrize("text", ["", "dcu", "hygon.com/dcu,"])
def test_what_names_no_resource_is_refused(text: str) -> None:
    with pytest.raises(prefixes.PrefixError, match=r"names no resource: write hygon\.com/dcu"):
        prefixes.of(Installation(AssertionError()), Namespace(prefixes=text))
