"""`python -m hack.generate.admission_lists`: write the parts of admission policies that have one source in the code.

These are lists of the code, and the match condition `asks`, by which a policy applies only to pods that ask for a card.
A new source of requests other than limits is one more term of `asks`: then every policy applies to its pods as well.
The component dra adds such a term, for pods with claims.
"""

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from device_plugin.core import requests
from device_plugin.core.contract import annotations
from device_plugin.core.jobs import reading, workload_reading
from device_plugin.node.vendors.families import CARD_VARIABLES
from vgpu_runtime.paths import SOURCES

MANIFESTS = SOURCES.parent / "manifests"
_OF_JOBS = {*reading.LABELS, *reading.ANNOTATIONS}
# By file, the words of the CEL variables that are lists.
LISTS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "admission/isolation.yaml": {
        "cardVariables": [name for name, value in CARD_VARIABLES.items() if value],
        "emptyVariables": [name for name, value in CARD_VARIABLES.items() if not value],
    },
    "admission/requests.yaml": {
        "labels": requests.LABELS,
        "annotations": requests.ANNOTATIONS,
        "ours": annotations.programs_write("Pod"),
    },
    "components/jobs/admission.yaml": {
        "labelKeys": reading.LABELS,
        "annotationKeys": reading.ANNOTATIONS,
        "ours": reading.OURS,
        "podKeys": [key for key in (*requests.LABELS, *requests.ANNOTATIONS) if key not in _OF_JOBS],
    },
    "components/jobs/kinds.yaml": {
        "labelKeys": workload_reading.LABELS,
        "annotationKeys": workload_reading.ANNOTATIONS,
        "ours": reading.OURS,
    },
}
WIDTH = 140
# The longest line of a condition, without its indentation in the manifest.
_LINE = 115
_NAMED = "\n  - name: asks\n"
# A condition `asks`: an optional line before it, the prefixes, which kustomize replaces, and the PodSpec.
_ASKS = re.compile(
    r"(?P<head>\n  - name: asks\n    expression: >-\n(?:      [^\"\n]+\n)?)"
    r"      (?P<prefixes>\"[^\"\n]+\")\.split.*\n        \(dyn\((?P<spec>[\w.]+)\.containers\)(?:.*\n        )+.*"
)


def asks(spec: str, prefixes: str) -> str:
    """The CEL expression that is true if a container of the PodSpec `spec` asks for a card; ephemeral ones cannot."""
    suffixes = ", ".join(f'"{suffix}"' for suffix in requests.SUFFIXES)
    containers = (
        f"  (dyn({spec}.containers) + (has({spec}.initContainers) ? {spec}.initContainers : [])).exists(c,"
    )
    if len(containers) > _LINE:
        containers = containers.replace(" + ", " +\n    ")
    return (
        f'{prefixes}.split(",").exists(p,\n{containers}\n    has(c.resources) && has(c.resources.limits) &&\n'
        f"    [{suffixes}].exists(s, p + s in c.resources.limits)))"
    )


def manifests() -> Iterator[tuple[Path, str]]:
    """The manifests with parts that are written here, each with its text as it must be now."""
    for path in sorted(MANIFESTS.glob("**/*.yaml")):
        text, name = path.read_text(encoding="utf-8"), path.relative_to(MANIFESTS).as_posix()
        if not name.startswith("chart/") and (name in LISTS or _NAMED in text):
            yield path, renewed(text, LISTS.get(name, {}))


def renewed(text: str, lists: Mapping[str, Sequence[str]]) -> str:
    """The text of a manifest with these lists, and its conditions `asks`, as they must be now.

    Raises ValueError if it lacks one of the variables, or has a condition `asks` of another form.
    """
    text, found = _ASKS.subn(
        lambda match: match["head"] + _indented(asks(match["spec"], match["prefixes"])), text
    )
    if found != text.count(_NAMED):
        raise ValueError("a condition `asks` is not the one that asks() writes")
    for name, words in lists.items():
        cel = ", ".join(f'"{word}"' for word in words)
        lines = textwrap.wrap(f"[{cel}]", WIDTH, break_on_hyphens=False)
        value = (
            f"'{lines[0]}'" if len(lines) == 1 else "\n       ".join([">-\n      " + lines[0], *lines[1:]])
        )
        head = rf"(\n  - name: {name}\n    expression: )"
        text, count = re.subn(rf"{head}(?:'\[.*\]'|>-(?:\n      .*)+)", rf"\g<1>{value}", text)
        if count != 1:
            raise ValueError(f"{count} variables are named {name}")
    return text


def _indented(expression: str) -> str:
    return textwrap.indent(expression, " " * 6)


def main() -> None:
    for path, text in manifests():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
