"""The commands of `vgpu`. A command's module is imported only when it runs, which saves memory in the node agent."""

import argparse
import difflib
import importlib.util
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from device_plugin.cli.interrupts import stopped_by_signals
from device_plugin.core.errors import VgpuError
from device_plugin.wiring import failures

VERSION = "0.1.0"
# Name, help, and the module with add_arguments(parser) and run(args) -> exit status.
Command = tuple[str, str, str]
_SERVICES: tuple[Command, ...] = (
    ("node", "run the node agent", "device_plugin.wiring.node_command"),
    ("cluster", "run the cluster service", "device_plugin.wiring.cluster_command"),
    ("job-engine", "run the job engine", "device_plugin.wiring.jobs_command"),
    ("ui-server", "serve the page for a team", "device_plugin.wiring.ui_command"),
    (
        "mount-writable",
        "mount a node's tmpfs for the files that containers may write",
        "device_plugin.wiring.mount_writable",
    ),
    (
        "copy-library",
        "copy the library into a folder, for the container in which `vgpu check --image` looks",
        "device_plugin.wiring.copy_library",
    ),
    (
        "scheduler-config",
        "write the configuration of the kube-scheduler next to the cluster service",
        "device_plugin.wiring.scheduler_config",
    ),
)
# Commands for people, in groups. The services' image lacks packages that they need, so its help does not list them.
_PEOPLE: Mapping[str, tuple[Command, ...]] = {
    "See cards and pods": (
        ("nodes", "list nodes with cards, and how much of each is granted", "device_plugin.cli.nodes"),
        ("cards", "list cards with their free room, and the pods on each", "device_plugin.cli.cards"),
        ("pods", "list pods that hold slices, also those that do not run", "device_plugin.cli.pods"),
        ("top", "list what pods use of their slices, most first", "device_plugin.cli.top"),
        ("waste", "list idle slices and slices of which little is used", "device_plugin.cli.waste"),
        ("usage", "list hours of slices and cards by namespace and owner", "device_plugin.cli.usage"),
        ("quota", "list ResourceQuotas on cards, and their use", "device_plugin.cli.quota"),
        ("ui", "serve a page with every card and the pods that wait", "device_plugin.cli.ui.command"),
    ),
    "Ask": (
        ("why", "say why a pod has no card, or where a queued job is", "device_plugin.cli.why"),
        ("fit", "say whether and where a pod would be placed now", "device_plugin.cli.fit"),
        ("check", "say whether the installation is sound", "device_plugin.cli.check.command"),
    ),
    "Run jobs": (
        ("run", "run a program on cards, as a queued job", "device_plugin.cli.run.command"),
        ("jobs", "list queued jobs, also those that ended", "device_plugin.cli.queue"),
        ("queue", "the same list; `queue admit` starts a job by hand", "device_plugin.cli.queue"),
        ("logs", "print the output of a job's pods", "device_plugin.cli.logs"),
        ("attach", "open a shell in a running pod of a job", "device_plugin.cli.attach"),
        ("stop", "stop a job, and hold it until it is resumed", "device_plugin.cli.stop"),
        ("resume", "let a stopped job wait for cards again", "device_plugin.cli.resume"),
        ("cancel", "delete a job, with its pods", "device_plugin.cli.cancel"),
    ),
    "Care for cards": (
        ("cordon", "give a card no new slices", "device_plugin.cli.cordon"),
        ("uncordon", "let a card get new slices again", "device_plugin.cli.uncordon"),
        ("drain", "cordon a card and evict the pods that hold slices of it", "device_plugin.cli.drain"),
        ("defrag", "move a few pods so that waiting pods fit", "device_plugin.cli.defrag"),
    ),
    "Set up": (
        (
            "convert",
            "rewrite pods that ask other products for a share of a card",
            "device_plugin.cli.convert.command",
        ),
        ("completion", "print a script that completes these commands", "device_plugin.wiring.completion"),
    ),
}
_OTHERS = "Develop"
_EXAMPLES = """\
    vgpu cards                          # every card with its free room, and the pods that hold slices of it
    vgpu why notebook                   # why a pod waits, and what would help
    vgpu fit --mem 4 --cores 15         # whether and where such a slice would be placed now
    vgpu drain GPU-1122334455000001     # the card gets no new slices, and the pods on it are evicted
    vgpu run hello --image I --mem 4 -- echo hello    # a program on a slice of a card, as a job of a queue
    vgpu ui                             # all of it in a browser, as it changes

"""
_ABOUT = (
    "Memory slices and core groups of accelerator cards for Kubernetes pods. `vgpu COMMAND --help` says more."
)
# Entry points of this group are tuples of further commands: a development install adds `demo` and `bench`.
_GROUP = "vgpu.commands"
_OF_PEOPLE = "kubernetes"
_COMPLETE = "__complete"
_PLUGIN = "kubectl vgpu"


def main(argv: Sequence[str] | None = None, more: Sequence[Command] = ()) -> int:
    """Run one command and return its exit status.

    If the command fails, the module `failures` chooses the exit status. A command in `more` replaces the product's
    command of the same name.
    """
    words = sys.argv[1:] if argv is None else argv
    failures.open_streams()

    def run() -> int:
        if words[:1] == [_COMPLETE]:
            return _complete(words[1:], more)
        failures.check_words(words)
        args = parse(words, more)
        if getattr(args, "verbose", False):
            logging.basicConfig(level=logging.DEBUG, format="%(message)s", stream=sys.stderr)
        status: int = args.run(args)
        return status

    of_people = {name for name, _, _ in for_people()} - {name for name, _, _ in more} | {_COMPLETE}
    return failures.exit_status(run, of_people=not of_people.isdisjoint(words[:1]))


def parse(words: Sequence[str], more: Sequence[Command] = ()) -> argparse.Namespace:
    """Returns the arguments of one command; their attribute `run` is the function that runs the command.

    Exits with a usage text on errors. If the command starts another program, the words after `--` become the argument
    `program`.
    """
    offered = _offered(words[:1], more)
    parser = argparse.ArgumentParser(
        prog=_program(), usage=f"{_program()} COMMAND [OPTION]...", description=_about(offered),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--version", action="version", version=f"vgpu {VERSION}")
    commands = {command[0]: command for group in offered.values() for command in group}
    _check_name(parser, words, commands)
    chosen = parser
    subparsers = parser.add_subparsers(
        prog=_program(), metavar="COMMAND", required=True, help=argparse.SUPPRESS
    )
    for name, _, module in commands.values():
        if name in words[:1]:
            loaded = importlib.import_module(module)
            chosen = subparsers.add_parser(name, formatter_class=argparse.RawDescriptionHelpFormatter)
            chosen.description = loaded.__doc__
            loaded.add_arguments(chosen)
            chosen.set_defaults(run=loaded.run)
    end = words.index("--") if "--" in words else len(words)
    args, unknown = parser.parse_known_args(words[:end])
    if "program" in args:
        args.program = tuple(words[end + 1 :])
    else:
        unknown += words[end:]
    if unknown:
        missing = ": write -- before the program" if "program" in args and end == len(words) else ""
        chosen.error(f"unrecognized arguments: {' '.join(unknown)}{missing}")
    return args


def _complete(words: Sequence[str], more: Sequence[Command]) -> int:
    """Print the candidates with which a shell can complete the last of `words`."""
    from device_plugin.wiring.completion import print_candidates

    offered = {name: (text, module) for name, text, module in (*for_people(), *more)}

    def parser_of(name: str) -> argparse.ArgumentParser | None:
        if name not in offered:
            return None
        parser = argparse.ArgumentParser(prog=name)
        importlib.import_module(offered[name][1]).add_arguments(parser)
        return parser

    return print_candidates(words, [(name, text) for name, (text, _) in offered.items()], parser_of)


def _program() -> str:
    """Returns the name by which a person calls this program: `kubectl vgpu` as a plugin of kubectl, else `vgpu`."""
    return _PLUGIN if Path(sys.argv[0]).name == "kubectl-vgpu" else "vgpu"


def _check_name(parser: argparse.ArgumentParser, words: Sequence[str], known: Collection[str]) -> None:
    """Exit with a usage text if the first word is not a command."""
    name = words[0] if words else "-"
    if name.startswith("-") or name in known:
        return
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"`{_program()} --help` lists the commands"
    parser.error(f"unknown command {name!r}: {hint}")


def _about(offered: Mapping[str, Sequence[Command]]) -> str:
    """Returns the text of --help: examples, and the commands in their groups."""
    groups = [
        "\n".join([f"{title}:", *(f"  {name:<18}{text}" for name, text, _ in commands)])
        for title, commands in offered.items()
        if commands
    ]
    examples = _EXAMPLES.replace("    vgpu ", f"    {_program()} ") if offered.get("Ask") else ""
    return "\n\n".join([examples + _ABOUT.replace("`vgpu", f"`{_program()}"), *groups])


def for_people() -> Iterator[Command]:
    """Returns the commands for people, in the order of --help."""
    return chain.from_iterable(_PEOPLE.values())


def _offered(chosen: Sequence[str], more: Sequence[Command]) -> Mapping[str, Sequence[Command]]:
    """Returns the commands that may be chosen here, by the title of their group; `more` has precedence.

    Services are not in the list that people see. A service still runs if `chosen` names it, except in the plugin of
    kubectl.
    """
    replaced = {name for name, _, _ in more}
    people = importlib.util.find_spec(_OF_PEOPLE) is not None
    named = any(name in chosen for name, _, _ in _SERVICES)
    groups: dict[str, Sequence[Command]] = (
        dict(_PEOPLE)
        if people
        else {
            title: [command for command in commands if command[0] in chosen]
            for title, commands in _PEOPLE.items()
        }
    )
    if not people or (named and _program() != _PLUGIN):
        groups["Services"] = _SERVICES
    groups[_OTHERS] = more
    known = {name for commands in groups.values() for name, _, _ in commands}
    if known.isdisjoint(chosen):
        from importlib.metadata import entry_points  # takes megabytes, so services must not load it

        groups[_OTHERS] = [*more, *chain.from_iterable(entry.load() for entry in entry_points(group=_GROUP))]
    return {
        title: [command for command in commands if title == _OTHERS or command[0] not in replaced]
        for title, commands in groups.items()
    }


class LogLevelError(VgpuError):
    """VGPU_LOG_LEVEL is not the name of a log level."""


def run_service(service: Callable[[threading.Event], int]) -> int:
    """Run a service until SIGTERM or SIGINT sets its stop event; returns its exit status. Raises LogLevelError.

    Sets up the log on stderr, of the level VGPU_LOG_LEVEL.
    """
    level = os.environ.get("VGPU_LOG_LEVEL", "INFO")
    if level.upper() not in logging.getLevelNamesMapping():
        raise LogLevelError(f"VGPU_LOG_LEVEL: {level!r} is no level: write DEBUG, INFO, WARNING or ERROR")
    logging.basicConfig(
        level=level.upper(),
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
        stream=sys.stderr,
    )
    with stopped_by_signals() as stop:
        return service(stop)


def say_listening(addresses: str) -> None:
    """Print where a service listens, with the time: a line on stdout, for the program or the person that started it."""
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    print(f"{now} listening {addresses}", flush=True)  # noqa: T201 - part of the contract
