"""The options of `vgpu run`, and the Job that they ask for."""

import argparse
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from device_plugin.cli.access import caller, engine
from device_plugin.cli.run.objects import MOST_SCRIPT_BYTES, NewJob, RunError
from device_plugin.core.contract import annotations as keys
from device_plugin.core.requests import CORES, DEFAULT_PREFIXES, MEM, PERCENT

_ENV = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
_DIGITS = re.compile(r"[0-9]{1,9}")
# Options that become the annotation of their name.
_ANNOTATIONS = (
    (keys.SAMPLES, "how many samples the data set has; the number of replicas is found from this and the next options"),
    (keys.EPOCHS, "how often the data set is gone through (default: 1)"),
    (keys.DURATION, "how long it may take, 8h or 90m"),
    (keys.DURATION_AT_MOST, "how long it may take where fewer cards are free"),
    (keys.MODEL, "the machine-learning model, by which its speed is known"),
    (keys.SPLIT_RATIO, "with --split: begin once there is room for more scripts than their number divided by this"),
    (keys.EXPECTED_DURATION, "how long it will run, 6h"),
    (keys.CHECKPOINT_SECONDS, "how long a checkpoint takes, if that is more than the grace period"),
    (keys.MIN_RUNTIME, "after each start it gives nothing to others of its priority for this long, 2h"),
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vgpu run`."""
    parser.usage = "vgpu run NAME --image IMAGE [OPTIONS] -- PROGRAM [ARGUMENTS]"
    parser.set_defaults(program=())
    # Not required by argparse: new_job has a better message if it is missing.
    parser.add_argument("name", metavar="NAME", nargs="?", help="name of the Job")
    parser.add_argument("--image", metavar="IMAGE", help="the container's image")
    _add_cards(parser.add_argument_group("cards and replicas"))
    _add_work(parser.add_argument_group("the program and its work"))
    _add_output(parser.add_argument_group("what is done with it"))
    caller.add_namespace(parser)
    engine.add_arguments(parser)


def _add_cards(group: Any) -> None:
    add = group.add_argument
    add(
        "--cards",
        type=_count,
        metavar="N",
        help="whole cards of all replicas, or with --split of each script",
    )
    add(
        "--mem",
        type=_count,
        metavar="UNITS",
        help="memory units (of 1 GiB unless configured otherwise) of one card, for each replica",
    )
    add("--cores", type=_count, metavar="N", help="core groups of one card, for each replica")
    add(
        "--percent",
        type=_count,
        metavar="P",
        help="percent of one card, of its memory and core groups alike, for each replica",
    )
    add("--scheduler", default="", metavar="NAME", help="before Kubernetes 1.36: vgpu-scheduler")
    add("--prefix", default=DEFAULT_PREFIXES[0], help=f"the cards' resource (default: {DEFAULT_PREFIXES[0]})")
    add("--card-model", default="", metavar="MODELS", help="only these models of cards, Z100,Z100L")
    add(
        "--replicas",
        type=_count,
        metavar="N",
        help="how many to begin with (default: a card each, else --max or the largest of --widths)",
    )
    add("--min", type=_count, metavar="N", help="the fewest replicas with which it can run")
    add("--max", type=_count, metavar="N", help="the most replicas with which it can run")
    add(
        "--widths", type=_counts, default=(), metavar="N,N",
        help="the only numbers of replicas with which it can run, 1,2,4,8",
    )  # fmt: skip


def _add_work(group: Any) -> None:
    add = group.add_argument
    add(
        "--split",
        metavar="FILE,FILE",
        help="scripts of this machine: each is a sub-task, and PROGRAM gets its path",
    )
    for key, text in _ANNOTATIONS:
        add(f"--{key.removeprefix(keys.PREFIX)}", default="", metavar="X", help=text)
    add(
        "--resumable",
        action=argparse.BooleanOptionalAction,
        help="it goes on from its checkpoints, and may be stopped for others of its priority (default: the engine's"
        " setting, which is no at first)",
    )
    add("--env", action="append", default=[], metavar="NAME=VALUE", help="may be repeated")
    add(
        "--volume",
        action="append",
        default=[],
        metavar="CLAIM:PATH",
        help="mount a volume claim; may be repeated",
    )
    add("--queue", default="default", help="name of the queue (default: default)")
    add("--priority", default="", metavar="CLASS", help="the pods' priority class")
    add(
        "--grace",
        type=_count,
        default=60,
        metavar="SECONDS",
        help="between SIGTERM and SIGKILL (default: 60)",
    )
    add(
        "--retries",
        type=_whole,
        metavar="N",
        help="failed pods that it survives (default: 0; 6 if its width changes; at least 100 for torchrun)",
    )


def _add_output(group: Any) -> None:
    add = group.add_argument
    add("--dry-run", action="store_true", help="create nothing, print the objects")
    add("--detach", action="store_true", help="create it, and do not wait for it")
    add("--rm", action="store_true", help="delete it at the end, also if it fails or you interrupt it")
    add("--all-logs", action="store_true", help="print the output of all replicas, not of index 0 only")
    add(
        "--fetch", action="append", default=[], metavar="PATH:LOCAL",
        help="when it has succeeded, copy a file or folder of a --volume to this machine; may be repeated",
    )  # fmt: skip
    add("-o", "--output", choices=("yaml", "json"), help="with --dry-run (default: yaml)")


def new_job(args: argparse.Namespace) -> NewJob:
    """Returns the Job that the arguments ask for. Raises RunError."""
    if not args.name:
        raise RunError("no name: write it first, vgpu run NAME; -n is the namespace, as in kubectl")
    if not args.image or args.image != args.image.strip():
        raise RunError("no image: write --image, with the name of the container's image")
    if not args.program and not args.split:
        raise RunError("no program: write it last, after --, as in -- python train.py")
    scripts = tuple(map(_script, args.split.split(","))) if args.split else ()
    _check_together(args)
    replicas, cards = _replicas(args)
    limits = {
        args.prefix: cards, args.prefix + MEM: args.mem, args.prefix + CORES: args.cores,
        args.prefix + PERCENT: args.percent,
    }  # fmt: skip
    return NewJob(
        args.name, args.image, tuple(args.program), {name: str(n) for name, n in limits.items() if n}, cards, replicas,
        least=args.min, most=args.max, widths=args.widths, namespace=args.namespace or "", queue=args.queue,
        annotations={key: getattr(args, _option(key)) for key, _ in _ANNOTATIONS} | _consent(args),
        card_model=args.card_model,
        scripts=scripts, env=dict(_pairs(args.env, "--env", "NAME=VALUE", lambda name, _: _ENV.fullmatch(name))),
        claims=_claims(args.volume),
        priority=args.priority, scheduler=args.scheduler, grace=args.grace, retries=args.retries,
    )  # fmt: skip


def _consent(args: argparse.Namespace) -> dict[str, str]:
    """Returns the annotation that says whether the Job is resumable; empty without --resumable or --no-resumable."""
    return {} if args.resumable is None else {keys.RESUMABLE: str(args.resumable).lower()}


def fetched(args: argparse.Namespace) -> Mapping[str, str]:
    """Returns the local path for each path of the container that --fetch names. Raises RunError."""
    return dict(_pairs(args.fetch, "--fetch", "PATH:LOCAL", _is_local))


def _check_together(args: argparse.Namespace) -> None:
    """Raise RunError for options that exclude each other."""
    if args.percent and (args.mem or args.cores):
        raise RunError(
            "--percent counts for memory and core groups: write either --percent, or --mem and --cores"
        )
    if _slice(args):
        if args.cards:
            raise RunError(
                "whole cards and a slice: write either --cards, or --mem and --cores, or --percent"
            )
        if args.samples:
            raise RunError(
                "--samples: write --cards in place of --mem, --cores and --percent, as rates are of whole cards"
            )
    if args.samples and args.split:
        raise RunError("--samples: leave it out, because as many scripts run as there is room for")


def _slice(args: argparse.Namespace) -> bool:
    """True if the options ask for a slice of one card."""
    return bool(args.mem or args.cores or args.percent)


def _replicas(args: argparse.Namespace) -> tuple[int, int]:
    """Returns the number of replicas, and the number of whole cards of each. Raises RunError."""
    if args.split:
        if args.replicas:
            raise RunError("--replicas: leave it out, because each script of --split is a pod of its own")
        if args.min or args.max:
            raise RunError(
                "--min and --max: leave them out, because as many scripts run as there is room for"
            )
        if args.widths:
            raise RunError("--widths: leave it out, because as many scripts run as there is room for")
        return 1, args.cards or 0
    if not (args.cards or _slice(args)) and args.samples:
        return args.replicas or args.min or min(args.widths, default=1), 1
    if not args.cards:
        if not _slice(args):
            raise RunError(
                "no card: write --cards with whole cards, or --mem with memory units or --percent of one card"
            )
        largest = max((each for each in args.widths if each <= (args.max or each)), default=0)
        return args.replicas or largest or args.max or args.min or 1, 0
    replicas = args.replicas or args.cards
    if args.cards % replicas:
        raise RunError(
            f"{args.cards} cards cannot be shared out evenly: write --cards as a multiple of {replicas}"
        )
    return replicas, args.cards // replicas


def _script(path: str) -> str:
    """Returns the text of the script in a file. Raises RunError if it cannot be read, or is empty or no text."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(MOST_SCRIPT_BYTES + 1)
        if content:
            return content.decode()
    except OSError as error:
        raise RunError(f"--split: {path!r} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise RunError(
            f"--split: {path!r} is no text: write a script that starts it from the image"
        ) from None
    raise RunError(f"--split: {path!r} is empty: write a script")


def _pairs(
    texts: Iterable[str], option: str, form: str, right: Callable[[str, str], object]
) -> Iterator[tuple[str, str]]:
    """Yields the two parts of each text of the form `form`, such as `NAME=VALUE`.

    Raises RunError, which names `option`, for a text of another form, or if `right` returns false for the two parts.
    """
    for text in texts:
        left, between, rest = text.partition("=" if "=" in form else ":")
        if not left or not between or not right(left, rest):
            raise RunError(f"{option} {text}: write {option} {form}")
        yield left, rest


def _claims(texts: list[str]) -> Mapping[str, str]:
    """Returns the names of the volume claims by the path at which each is mounted. Raises RunError."""
    found: dict[str, str] = {}
    for claim, path in _pairs(texts, "--volume", "CLAIM:/PATH", _is_mount):
        if path in found:
            raise RunError(f"--volume {claim}:{path}: {found[path]} is mounted there: write another path")
        found[path] = claim
    return found


def _is_local(_: str, path: str) -> bool:
    # For kubectl a path with a colon is a path in a pod.
    return bool(path) and ":" not in path


def _is_mount(_: str, path: str) -> bool:
    return path.startswith("/") and ":" not in path


def _option(key: str) -> str:
    return key.removeprefix(keys.PREFIX).replace("-", "_")


def _count(text: str) -> int:
    """Returns a whole number of at least 1. Raises ArgumentTypeError for another text."""
    if not _whole(text):
        raise argparse.ArgumentTypeError(f"{text!r}: write a whole number of at least 1")
    return int(text)


def _counts(text: str) -> tuple[int, ...]:
    """Returns the whole numbers in a text, which commas separate. Raises ArgumentTypeError if one is less than 1.

    Their order is checked later, with the whole Job.
    """
    return tuple(map(_count, text.split(",")))


def _whole(text: str) -> int:
    """Returns a whole number of at most 9 digits. Raises ArgumentTypeError for another text."""
    if not _DIGITS.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text[:63]!r}: write a whole number of at most 9 digits")
    return int(text)
