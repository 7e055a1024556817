"""Reads the settings of the images from the project's Dockerfile, their only source."""

import json
import re
import shlex
from pathlib import Path

from vgpu_runtime.paths import SOURCES

FILE = SOURCES.parent / "Dockerfile"


def instructions(stage: str, file: Path = FILE) -> list[tuple[str, str]]:
    """The instructions of a stage with their arguments, continued lines joined."""
    lines = [line for line in file.read_text().splitlines() if not line.lstrip().startswith("#")]
    text = re.sub(r"\\\n\s*", "", "\n".join(lines))
    found = [(word, rest) for word, _, rest in (line.partition(" ") for line in text.splitlines() if line)]
    starts = [index for index, (word, _) in enumerate(found) if word == "FROM"]
    (first,) = (index for index in starts if found[index][1].endswith(f" AS {stage}"))
    return found[first : min((index for index in starts if index > first), default=None)]


def config(arguments: dict[str, str]) -> dict[str, object]:
    """The settings of both images, in the format of an OCI image's config; `arguments` override defaults of ARG."""
    values: dict[str, str] = {}
    environment: list[str] = ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]
    labels: dict[str, str] = {}
    settings: dict[str, object] = {"Env": environment, "Labels": labels}
    for word, rest in instructions("product"):
        text = re.sub(r"\$\{(\w+)\}", lambda name: values[name[1]], rest)
        match word:
            case "ARG":
                name, _, default = text.partition("=")
                values[name] = arguments.get(name, default)
            case "ENV":
                environment.extend(shlex.split(text))
            case "LABEL":
                labels.update(pair.partition("=")[::2] for pair in shlex.split(text))
            case "USER":
                settings["User"] = text
            case "ENTRYPOINT":
                settings["Entrypoint"] = json.loads(text)
    return settings
