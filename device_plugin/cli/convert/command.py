"""`vgpu convert`: rewrite pods that ask HAMi, gpushare, KAI, Volcano, or NVIDIA's or Hygon's plugin for a card.

    vgpu convert pod.yaml > ours.yaml                     # what has no counterpart is said on stderr
    vgpu convert --core-groups 60 pod.yaml                # a card has 60: percents of compute become core groups
    vgpu convert --prefix amd.com/gpu --in-place *.yaml
    kubectl get deployment web -o yaml | vgpu convert -

It finds pods and pod templates at any depth of any kind of object, and keeps comments and order. The exit status is 1
if a request could not be converted.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from device_plugin.adapters.yaml_text import read
from device_plugin.cli.convert.claims import claims
from device_plugin.cli.convert.pods import Ask, Conversion, Target, templates
from device_plugin.core.errors import RequestError, VgpuError
from device_plugin.core.printable import printable
from device_plugin.core.requests import DEFAULT_PREFIXES

STDIN = "-"


class ConvertError(VgpuError):
    """A file cannot be converted or written.

    Cure: try the file with `kubectl apply --dry-run=client -f FILE`, which says where it is wrong.
    """


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vgpu convert`."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="YAML or JSON; - reads stdin")
    parser.add_argument(
        "--prefix", default=DEFAULT_PREFIXES[0], metavar="P",
        help=f"card family to ask for (default: {DEFAULT_PREFIXES[0]})",
    )  # fmt: skip
    parser.add_argument(
        "--mem-unit-mib",
        type=int,
        default=1024,
        metavar="MIB",
        help="memory unit of the cluster (default: 1024)",
    )
    parser.add_argument(
        "--core-groups", type=int, default=0, metavar="N",
        help="core groups of a card, by which a percentage of its compute units is converted",
    )  # fmt: skip
    parser.add_argument(
        "-i", "--in-place", action="store_true", help="replace each file instead of writing to stdout"
    )


def run(args: argparse.Namespace) -> int:
    """Print or write the converted files. Raises ConvertError and YamlFileError."""
    if args.mem_unit_mib < 1 or args.core_groups < 0:
        raise ConvertError("--mem-unit-mib and --core-groups: write whole numbers of at least 1")
    if args.in_place and STDIN in args.files:
        raise ConvertError("--in-place needs files: stdin has no place")
    target = Target(args.prefix, args.mem_unit_mib, args.core_groups)
    # All files are read before the first is written.
    read = [(name, _documents(name)) for name in args.files]
    claimed = _claims(read)
    failed = False
    for number, (name, documents) in enumerate(read):
        failed |= _convert(name, documents, target, claimed)
        text = _as_text(documents)
        if args.in_place:
            _write(name, text)
        else:
            print("---\n" * bool(number) + text, end="")
    return int(failed)


def _documents(name: str) -> list[Any]:
    """Returns the documents of a file. Raises YamlFileError."""
    return read(name, _yaml().load_all, YAMLError)


def _write(name: str, text: str) -> None:
    """Replace a file's text. Raises ConvertError."""
    try:
        Path(name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConvertError(f"{name} cannot be written: {error.strerror}") from error


def _claims(read: Sequence[tuple[str, Sequence[Any]]]) -> Mapping[tuple[str, str], Ask | None]:
    """The requests of the claims in all files: a pod and its claim may be in different ones. Raises ConvertError."""
    found: dict[tuple[str, str], Ask | None] = {}
    for name, documents in read:
        try:
            found |= {key: ask for document in documents for key, ask in claims(document)}
        except RequestError as error:
            raise ConvertError(f"{name}: {error}") from error
        except (AttributeError, LookupError, TypeError) as error:
            raise ConvertError(f"{name}: a part of a claim is not as Kubernetes has it") from error
    return found


def _convert(
    name: str, documents: Sequence[Any], target: Target, claimed: Mapping[tuple[str, str], Ask | None]
) -> bool:
    """Convert a file's documents in place, and print remarks; returns True if something could not be converted.

    Raises ConvertError.
    """
    found = [(template, document) for document in documents for template in templates(document)]
    if not found:
        _say(f"{name}: no pod and no pod template")
    failed = False
    for template, document in found:
        conversion = Conversion(target, claimed)
        where = f"{name}: {_named(template if document is template else document)}"
        try:
            conversion.run(template)
        except (AttributeError, LookupError, TypeError, ValueError) as error:  # YAML of another form
            raise ConvertError(f"{where}: a part of its pod is not as Kubernetes has it") from error
        if not conversion.converted and not conversion.problems:
            _say(f"{where}: asks no other product for a card; unchanged")
        for remark in conversion.remarks:
            _say(f"{where}: {remark}")
        for problem in conversion.problems:
            _say(f"{where}: not converted: {problem}")
        failed |= bool(conversion.problems)
    return failed


def _say(text: str) -> None:
    """Print a sentence on stderr, with control characters replaced, because it may quote the file."""
    print(printable(text), file=sys.stderr)


def _named(document: Any) -> str:
    """Returns kind and name of an object, such as `Deployment web`."""
    if not isinstance(document, dict):
        return "list ?"
    kind, metadata = document.get("kind", "object"), document.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    return f"{kind} {metadata.get('name') or metadata.get('generateName') or '?'}"


def _as_text(documents: Sequence[Any]) -> str:
    written = StringIO()
    _yaml().dump_all(documents, written)
    return written.getvalue()


def _yaml() -> YAML:
    """Returns a YAML reader and writer that keeps comments, quotes and the order of keys."""
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096
    return yaml
