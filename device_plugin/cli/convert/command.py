"""`vgpu convert`: rewrite pods that ask HAMi, gpushare, KAI, Volcano, or NVIDIA's or Hygon's plugin for a card.

    vgpu convert pod.yaml > ours.yaml                     # what has no counterpart is said on stderr
    vgpu convert --core-groups 60 pod.yaml                # a card has 60: percents of compute become core groups
    vgpu convert --prefix amd.com/gpu --in-place *.yaml
    kubectl get deployment web -o yaml | vgpu convert -

It finds pods and pod templates at any depth of any kind of object, and the pods of TrainJobs, InferenceServices and
Workflows, which have no templates. It changes nothing else of a file. An object with a request that cannot be converted
stays as it is, and the exit status is 1.
"""

import argparse
import sys
from collections.abc import Sequence

from device_plugin.cli.convert import files
from device_plugin.cli.convert.claims import Namespaces
from device_plugin.cli.convert.files import BOM, ConvertError, Document, File
from device_plugin.cli.convert.objects import Owner, copied, owners
from device_plugin.cli.convert.pods import Target
from device_plugin.core.errors import RequestError
from device_plugin.core.printable import printable
from device_plugin.core.requests import DEFAULT_PREFIXES, is_prefix

STDIN = "-"


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
    """Print the converted files, or write them with --in-place; returns 1 if something was not converted, else 0.

    Raises ConvertError and YamlFileError.
    """
    if args.mem_unit_mib < 1 or args.core_groups < 0:
        raise ConvertError("--mem-unit-mib and --core-groups: write whole numbers of at least 1")
    if not is_prefix(args.prefix):
        raise ConvertError(
            f"--prefix: {args.prefix!r} names no resource: write domain/name, such as {DEFAULT_PREFIXES[0]}"
        )
    if args.in_place and STDIN in args.files:
        raise ConvertError("--in-place needs files: stdin has no place")
    target = Target(args.prefix, args.mem_unit_mib, args.core_groups)
    read = [files.read(name) for name in args.files]
    claimed = _claims(read)
    # All files are converted before the first is written.
    failed = [_convert(file, target, claimed) for file in read]
    if args.in_place:
        for file in read:
            files.write(file)
    else:
        _print(read)
    return int(any(failed))


def _print(read: Sequence[File]) -> None:
    """Print the files as documents of one stream, in UTF-8 as they are, whatever the terminal's encoding is."""
    sys.stdout.flush()
    before = ""
    for file in read:
        text = file.text
        if before:
            text = text.removeprefix(BOM)
            between = "" if before.endswith("\n") else "\n"
            text = between + "---\n" * (not text.startswith("---")) + text
        sys.stdout.buffer.write(text.encode())
        before = text


def _claims(read: Sequence[File]) -> Namespaces:
    """The ResourceClaims in all files: a pod and its claim may be in different ones. Raises ConvertError."""
    found = Namespaces()
    for file in read:
        try:
            for document in file.documents:
                found.read(document.value)
        except RequestError as error:
            raise ConvertError(f"{file.name}: {error}") from error
        except (AttributeError, LookupError, TypeError) as error:
            raise ConvertError(f"{file.name}: a part of a claim is not as Kubernetes has it") from error
    return found


def _convert(file: File, target: Target, claimed: Namespaces) -> bool:
    """Convert a file's documents, and print remarks; returns True if something could not be converted.

    Raises ConvertError.
    """
    failed = found = False
    for document in file.documents:
        after = copied(document.value)
        made = owners(after, target.prefix)
        if not made:
            continue
        found = True
        for owner in made:
            _convert_object(file.name, owner, target, claimed)
        failed |= not _change(file.name, document, after, made)
    if not found:
        _say(f"{file.name}: no pod and no pod template")
    return failed


def _convert_object(file: str, owner: Owner, target: Target, claimed: Namespaces) -> None:
    try:
        owner.convert(target, claimed)
    except (AttributeError, LookupError, TypeError, ValueError) as error:  # YAML of another form
        raise ConvertError(f"{file}: {owner}: a part of its pod is not as Kubernetes has it") from error


def _change(file: str, document: Document, after: object, made: Sequence[Owner]) -> bool:
    """Write the new value `after` into the document's text, and print remarks; returns True if all of it is converted.

    `made` are the objects in the document, with their remarks and problems.
    """
    if after != document.value and not document.change(after):
        others = f" and {len(made) - 1} others in its document" if made[1:] else ""
        _say(
            f"{file}: {made[0]}{others}: not converted: its text cannot be changed safely: write it in a simpler style"
        )
        return False
    for owner in made:
        for remark in owner.remarks:
            _say(f"{file}: {owner}: {remark}")
        for problem in owner.problems:
            _say(f"{file}: {owner}: not converted: {problem}")
    if document.written_out:
        _say(f"{file}: some aliases (*name) are written out, since they now differ from what they named")
    return not any(owner.problems or owner.strays for owner in made)


def _say(text: str) -> None:
    """Print a sentence on stderr, with control characters replaced, because it may quote the file."""
    print(printable(text), file=sys.stderr)
