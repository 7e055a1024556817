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
from typing import Any

from device_plugin.cli.convert import files
from device_plugin.cli.convert.claims import claims
from device_plugin.cli.convert.files import ConvertError, Document
from device_plugin.cli.convert.pods import Claim, Conversion, Target, templates
from device_plugin.core.errors import RequestError
from device_plugin.core.printable import printable
from device_plugin.core.requests import DEFAULT_PREFIXES

STDIN = "-"
# By namespace, and then by kind and name.
Claims = Mapping[str, Mapping[tuple[str, str], Claim]]


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
    read = [(name, files.read(name)) for name in args.files]
    claimed = _claims(read)
    failed, before = False, ""
    for name, documents in read:
        failed |= _convert(name, documents, target, claimed)
        if args.in_place:
            files.write(name, documents)
            continue
        text = files.text_of(documents)
        if before:
            between = "" if before.endswith("\n") else "\n"
            print(between + "---\n" * (not text.startswith("---")), end="")
        print(text, end="")
        before = text
    return int(failed)


def _claims(read: Sequence[tuple[str, Sequence[Document]]]) -> Claims:
    """The claims in all files: a pod and its claim may be in different ones. Raises ConvertError."""
    found: dict[str, dict[tuple[str, str], Claim]] = {}
    for file, documents in read:
        try:
            for each in (each for document in documents for each in claims(document.value)):
                known = found.setdefault(each.namespace, {})
                if known.setdefault((each.kind, each.name), each.claim) != each.claim:
                    raise ConvertError(
                        f"{file}: {each.kind} {each.name} is there twice, with two requests: keep one"
                    )
        except RequestError as error:
            raise ConvertError(f"{file}: {error}") from error
        except (AttributeError, LookupError, TypeError) as error:
            raise ConvertError(f"{file}: a part of a claim is not as Kubernetes has it") from error
    return found


def _convert(file: str, documents: Sequence[Document], target: Target, claimed: Claims) -> bool:
    """Convert a file's documents in place, and print remarks; returns True if something could not be converted.

    Raises ConvertError.
    """
    failed = found = False
    for document in documents:
        if any(templates(document.value)):
            found = True
            failed |= _convert_document(file, document, target, claimed)
    if not found:
        _say(f"{file}: no pod and no pod template")
    return failed


def _convert_document(file: str, document: Document, target: Target, claimed: Claims) -> bool:
    aliases = document.own_parts()
    before, failed = document.written(), False
    for owner, template in templates(document.value):
        where = f"{file}: {_named(owner)}"
        try:
            conversion = Conversion(target, claimed.get(_namespace(owner), {}))
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
    after = document.written()
    if after != before:
        document.change(after)
        if aliases:
            _say(f"{file}: the aliases (*name) of a document are written out")
    return failed


def _say(text: str) -> None:
    """Print a sentence on stderr, with control characters replaced, because it may quote the file."""
    print(printable(text), file=sys.stderr)


def _named(document: Any) -> str:
    """Returns kind and name of an object, such as `Deployment web`."""
    metadata = document.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    return f"{document.get('kind', 'object')} {metadata.get('name') or metadata.get('generateName') or '?'}"


def _namespace(document: Any) -> str:
    return str((document.get("metadata") or {}).get("namespace") or "")
