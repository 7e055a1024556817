"""What manifests may hold, and which are refused."""

from pathlib import Path

import pytest

from device_plugin.cli.reading import manifests
from device_plugin.cli.reading.manifests import ManifestError, read_manifests

SPEC = "containers: [{name: main}]"
REFUSED = {
    "another request": (
        '{kind: Pod, metadata: {name: a, namespace: "prod/services/http:db:80/proxy/wipe?x="}, spec: {%s}}',
        "the namespace 'prod/services",
    ),
    "a namespace that is a path": (
        "{kind: Pod, metadata: {name: a, namespace: ..}, spec: {%s}}",
        "the namespace '..'",
    ),
    "a name that is a path": ("{kind: Pod, metadata: {name: a/b}, spec: {%s}}", "the name 'a/b'"),
    "a key that is no text": (
        "{kind: Pod, metadata: {name: a}, spec: {nodeSelector: {on: yes}, %s}}",
        "Pod a cannot be read: it cannot be written as JSON",
    ),
    "half of a character": (
        r'{kind: Pod, metadata: {name: a, annotations: {b: "\ud800"}}, spec: {%s}}',
        "Pod a cannot be read: it cannot be written as JSON",
    ),
}


def pods(tmp_path: Path, text: str) -> list[str]:
    file = tmp_path / "pods.yaml"
    file.write_text(text, encoding="utf-8")
    return [each.name for each in read_manifests(str(file), "default")]


@pytest.mark.parametrize(("text", "said"), REFUSED.values(), ids=REFUSED)
def test_what_kubernetes_would_not_read_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ManifestError, match=said):
        pods(tmp_path, text % SPEC)


@pytest.mark.parametrize("name", ["name: a.b-1", "generateName: train-", "name: 7"])
def test_names_of_kubernetes_are_read(tmp_path: Path, name: str) -> None:
    (read,) = pods(tmp_path, f"{{kind: Pod, metadata: {{{name}}}, spec: {{{SPEC}}}}}")
    assert name.endswith(f": {read}")


def test_the_workloads_of_a_file_are_bounded(tmp_path: Path) -> None:
    first = f"items:\n- &p {{kind: Pod, metadata: {{name: a}}, spec: {{{SPEC}}}}}\n"
    assert len(pods(tmp_path, first + "- *p\n" * (manifests.MOST_WORKLOADS - 1))) == manifests.MOST_WORKLOADS
    with pytest.raises(ManifestError, match="has more than 100 workloads: split it"):
        pods(tmp_path, first + "- *p\n" * manifests.MOST_WORKLOADS)
