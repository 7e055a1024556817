"""README is short, keeps its order, and CI runs the commands that it promises."""

import re

import yaml

from device_plugin.core.versions import LEAST_KUBERNETES
from tests.pages import PROJECT

README = (PROJECT / "README.md").read_text(encoding="utf-8")
MOST_WORDS = 900


def test_it_is_read_in_some_minutes() -> None:
    assert len(README.split()) <= MOST_WORDS


def test_it_says_what_it_is_before_how_to_get_it() -> None:
    order = (
        "vgpu is for", "not yet on a real card", "](docs/ui.png)", "- **Limits", "](docs/measured.md#", "```yaml",
        "## Try it", "## Install", "## One pod", "## Limits of isolation", "## Licence",
    )  # fmt: skip
    places = [README.index(text) for text in order]
    assert places == sorted(places)


def test_there_are_six_features_and_three_figures() -> None:
    part = README.partition("## Try it")[0]
    assert len(re.findall(r"^- \*\*", part, re.MULTILINE)) == 6
    assert len(re.findall(r"\]\(docs/measured\.md#", part)) == 3


def test_ci_runs_the_commands_for_trying() -> None:
    """As a newcomer does, with nothing set up before."""
    shown = set(re.findall(r"^    (make \w+) +#", README, re.MULTILINE))
    run = (PROJECT / ".ci/run").read_text(encoding="utf-8")
    assert set(re.findall(r"as_newcomer (make \w+)$", run, re.MULTILINE)) == shown


def test_supported_versions_are_the_same_everywhere() -> None:
    least = ".".join(map(str, LEAST_KUBERNETES))
    install = (PROJECT / "docs/install.md").read_text(encoding="utf-8")
    chart = yaml.safe_load((PROJECT / "manifests/chart/Chart.yaml").read_text(encoding="utf-8"))
    assert f"Kubernetes {least} or newer, with Helm 3.14 or newer ([supported versions]" in " ".join(
        README.split()
    )
    assert f"| Kubernetes: API server and kubelets | {least} or newer |" in install
    assert "| Helm | 3.14 or newer |" in install
    assert chart["kubeVersion"] == f">={least}.0-0"


def test_no_licence_is_assumed() -> None:
    assert "has not chosen a licence" in README
    assert not list(PROJECT.glob("LICEN[CS]E*"))
