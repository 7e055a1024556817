"""Completes command lines for shells, and for kubectl, which runs the program kubectl_complete-vgpu.

Both pass the words of the command line; the last word is the one to complete. Each line of the output has a candidate,
a tab and a description. The last line is `:4` if only these candidates fit, or `:0` if file names fit too; the numbers
are cobra's ShellCompDirective, which kubectl uses.
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain

from device_plugin.cli.access import caller, engine
from device_plugin.cli.printing.formats import NAMES
from device_plugin.cli.reading.reader import ClusterReader, Scope
from device_plugin.core.errors import VgpuError
from device_plugin.core.printable import printable
from device_plugin.kube.api import JOBS, NAMESPACES, Where

NO_FILES, FILES = 4, 0
# Seconds to wait for the API server: a person waits for the answer.
TIMEOUT_SECONDS = 3.0
# Most candidates that are printed: nobody reads more.
MOST = 500
SHELLS: Mapping[str, str] = {
    "bash": """\
_vgpu() {
    local line IFS=$'\\n'
    COMPREPLY=()
    for line in $(vgpu __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null); do
        case $line in
            :0) compopt -o default ;;
            :*) ;;
            *) COMPREPLY+=("${line%%$'\\t'*}") ;;
        esac
    done
}
complete -F _vgpu vgpu
""",
    "zsh": """\
#compdef vgpu
_vgpu() {
    local -a lines
    lines=("${(@f)$(vgpu __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    local directive=${lines[-1]}
    lines=("${(@)lines[1,-2]//:/\\\\:}")
    lines=("${(@)lines//$'\\t'/:}")
    (( $#lines )) && _describe vgpu lines
    [[ $directive == :0 ]] && _files
}
compdef _vgpu vgpu
""",
    "fish": """\
complete -c vgpu -f -a '(vgpu __complete (commandline -opc)[2..] (commandline -ct) 2>/dev/null | string match -rv "^:")'
""",
}
# By the name of an argument, the kind of object that its value names.
_NAMES: Mapping[str, str] = {
    "node": "nodes",
    "card": "cards",
    "namespace": "namespaces",
    "job": "jobs",
    "jobs": "jobs",
}
_FILE_ARGUMENTS = frozenset({"kubeconfig", "file", "files"})
# A shell takes a candidate as if it had been typed, so one with `$(...)` or a line break would be a command.
_PLAIN = re.compile(r"[\w.:/@+=,-]+", re.ASCII)
_OWN_PROGRAM = "--"
# A word that may stand before the name of a job, and what it does.
_ADMIT = (engine.ADMIT, "start a waiting job by hand")

Parsers = Callable[[str], argparse.ArgumentParser | None]
"""Functions that return the parser of the command with a name; None if there is no such command."""


def print_candidates(words: Sequence[str], commands: Iterable[tuple[str, str]], parser_of: Parsers) -> int:
    """Print the candidates for the last of `words`, and whether file names fit too; returns 0.

    `commands` are names and descriptions.
    """
    found, directive = [*commands], NO_FILES
    *before, last = words or ("",)
    candidates: Iterable[tuple[str, str]] = found
    if before:
        candidates = ()
        # A command that cannot be imported, and a cluster that cannot be reached, have no candidates.
        with suppress(VgpuError, ImportError, OSError, SystemExit):
            parser = parser_of(before[0])
            if parser is not None and _OWN_PROGRAM not in before:
                listed, directive = _after(parser, before[1:], last)
                candidates = [*listed]
    begun = last.rpartition("=")[2] if last.startswith("-") else last
    shown = [(name, about) for name, about in candidates if name.startswith(begun) and _PLAIN.fullmatch(name)]
    for name, about in shown[:MOST]:
        sys.stdout.write(f"{name}\t{printable(about)}\n" if about else f"{name}\n")
    sys.stdout.write(f":{directive}\n")
    return 0


def _after(
    parser: argparse.ArgumentParser, before: Sequence[str], last: str
) -> tuple[Iterable[tuple[str, str]], int]:
    """Returns the candidates for `last`, which follows the words `before`; and FILES if file names fit too."""
    actions = parser._actions  # argparse has no public way to its arguments
    options = {name: action for action in actions for name in action.option_strings}
    written, _, _ = last.partition("=")
    in_option = "=" in last and last.startswith("-")
    asked = options.get(written) if in_option else options.get(before[-1]) if before else None
    if asked is not None and (asked.nargs is None or in_option):
        return _values(asked, before)
    if last.startswith("-"):
        return [
            (name, (action.help or "").partition("\n")[0]) for name, action in sorted(options.items())
        ], NO_FILES
    positional = [action for action in actions if not action.option_strings]
    return _values(positional[0], before) if positional else ((), NO_FILES)


def _values(asked: argparse.Action, before: Sequence[str]) -> tuple[Iterable[tuple[str, str]], int]:
    if asked.choices is not None:
        return [(str(choice), "") for choice in asked.choices], NO_FILES
    if asked.dest == "output":
        return [(name, "") for name in NAMES], NO_FILES
    if asked.dest in _FILE_ARGUMENTS:
        return (), FILES
    if asked.dest == "sort_by":
        words = (asked.help or "").partition(";")[0].split(", ")
        return [(word, "") for word in words], NO_FILES
    if asked.dest == "context":
        return _contexts(before), NO_FILES
    if (what := _NAMES.get(asked.dest)) is not None:
        admits = asked.dest == "jobs" and _ADMIT[0] not in before
        return chain([_ADMIT] if admits else (), _in_cluster(what, before)), NO_FILES
    return (), NO_FILES


def _caller(before: Sequence[str]) -> argparse.Namespace:
    """Returns the options among these words that choose the cluster and the namespace; other words are ignored."""
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False, allow_abbrev=False)
    caller.add_arguments(parser)
    caller.add_namespace(parser)
    try:
        return parser.parse_known_args(before)[0]
    except argparse.ArgumentError:  # the last word is an option whose value is asked for
        return parser.parse_known_args(before[:-1])[0]


def _contexts(before: Sequence[str]) -> Iterator[tuple[str, str]]:
    from device_plugin.adapters.kube.kubeconfig import context_names

    yield from ((name, "") for name in context_names(caller.kubeconfig(_caller(before))))


def _in_cluster(what: str, before: Sequence[str]) -> Iterator[tuple[str, str]]:
    with caller.connected(_caller(before), TIMEOUT_SECONDS) as client:
        if what == "namespaces":
            yield from ((each.name, "") for each in client.list(NAMESPACES).items)
            return
        if what == "jobs":
            where = Where(caller.namespace(_caller(before)))
            yield from ((each.name, "") for each in client.list(JOBS.metadata, where).items)
            return
        reading = ClusterReader(client, Scope()).read_nodes()
        for node in reading.nodes.values():
            if what == "nodes":
                yield node.name, f"{len(node.cards)} cards"
            else:
                yield from ((card.uuid, f"on {node.name}") for card in node.cards)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vgpu completion`."""
    parser.description = "Print what a shell reads to complete `vgpu`: source <(vgpu completion bash)"
    parser.add_argument("shell", choices=sorted(SHELLS))


def run(args: argparse.Namespace) -> int:
    """Print the script by which bash, zsh or fish completes the words of `vgpu`."""
    sys.stdout.write(SHELLS[args.shell])
    return 0


def main() -> int:
    """Run the program `kubectl_complete-vgpu`: print the candidates for `kubectl vgpu WORDS...`."""
    from device_plugin.wiring.commands import main as vgpu

    return vgpu(["__complete", *sys.argv[1:]])
