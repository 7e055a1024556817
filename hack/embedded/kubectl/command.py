"""The supported commands of kubectl, with kubectl's own arguments and output."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

from hack.embedded.kubectl import objects, pods
from hack.embedded.kubectl.api import Api, KubectlError

COMMANDS: dict[
    str, tuple[Callable[[argparse.ArgumentParser], None], Callable[[Api, argparse.Namespace], int]]
] = {
    "get": (objects.get_arguments, objects.get),
    "describe": (objects.named_arguments, objects.describe),
    "apply": (objects.file_arguments, objects.apply),
    "create": (objects.create_arguments, objects.create),
    "delete": (objects.delete_arguments, objects.delete),
    "label": (objects.label_arguments, objects.label),
    "wait": (objects.wait_arguments, objects.wait),
    "rollout": (objects.rollout_arguments, objects.rollout),
    "version": (lambda _: None, objects.version),
    "logs": (pods.log_arguments, pods.logs),
    "exec": (pods.exec_arguments, pods.execute),
    "port-forward": (pods.forward_arguments, pods.forward),
}


def main(words: Sequence[str]) -> int:
    """Run one command; returns its exit code."""
    own, program = _divided(words)
    args = _parser().parse_args(own)
    args.program = program
    if args.command == "vgpu":
        return _plugin(args.words)
    headers = {"Impersonate-User": args.as_user} if args.as_user else {}
    try:
        api = Api.of(args.kubeconfig, args.context, args.namespace, headers)
        return int(args.run(api, args))
    except KubectlError as error:
        print(error, file=sys.stderr)
        return 1
    except (KeyboardInterrupt, BrokenPipeError):
        with suppress(OSError):
            sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115 - further output is dropped
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kubectl", description=f"kubectl of the one-machine cluster: {', '.join(COMMANDS)}, and plugins."
    )
    _shared(parser)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (add_arguments, run) in COMMANDS.items():
        added = commands.add_parser(name)
        add_arguments(added)
        added.set_defaults(run=run)
    plugin = commands.add_parser("vgpu", add_help=False, prefix_chars="\0")
    plugin.add_argument("words", nargs=argparse.REMAINDER)
    return parser


def _shared(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kubeconfig", default="")
    parser.add_argument("--context", default="")
    parser.add_argument("-n", "--namespace", default="")
    parser.add_argument("--as", dest="as_user", default="")
    parser.add_argument("--as-group", action="append")


def _divided(words: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """The words of kubectl, and those after `--`, which are a program's.

    The options that all commands share are moved to the beginning; kubectl accepts them anywhere before `--`.
    """
    first, rest = list[str](), list[str]()
    left = iter(words)
    for word in left:
        if word == "--":
            return [*first, *rest], [*left]
        if word == "vgpu" and not rest:
            return [*first, *rest, word, *left], []
        name, _, value = word.partition("=")
        if name in ("--kubeconfig", "--context", "--namespace", "-n", "--as", "--as-group"):
            first += [word] if value else [word, next(left, "")]
        else:
            rest.append(word)
    return [*first, *rest], []


def _plugin(words: Sequence[str]) -> int:
    """Replace this process by the plugin, as kubectl does; returns 1 if it cannot be run."""
    try:
        os.execvp("kubectl-vgpu", ["kubectl-vgpu", *words])  # noqa: S606
    except OSError as error:
        print(f"error: kubectl-vgpu cannot be run: {error.strerror}", file=sys.stderr)
        return 1
