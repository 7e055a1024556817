"""`python -m hack.generate.admission_lists`: write the lists of the code that stand in the admission policies too."""

import re
import textwrap
from collections.abc import Mapping, Sequence

from device_plugin.core import requests
from device_plugin.core.contract import annotations
from device_plugin.core.jobs import reading
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
}
WIDTH = 140


def renewed(text: str, lists: Mapping[str, Sequence[str]]) -> str:
    """The text of a manifest with these lists as they are now. Raises ValueError if it lacks one of the variables."""
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


def main() -> None:
    for name, lists in LISTS.items():
        text = (MANIFESTS / name).read_text(encoding="utf-8")
        (MANIFESTS / name).write_text(renewed(text, lists), encoding="utf-8")


if __name__ == "__main__":
    main()
