"""The output of the demo: tables and bars on the terminal."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from device_plugin.cli.printing.answers import lines
from device_plugin.cli.printing.terminal import Terminal
from device_plugin.cli.queue import as_table
from device_plugin.core.answers import Answer
from device_plugin.core.contract.grants import Slice, ranges
from device_plugin.core.contract.masks import core_mask
from device_plugin.core.placement.refusal import gib
from hack.embedded.person import Object

BAR = 30
COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "red")


class StoryPage:
    """Prints the story to one console. Without a terminal the width is fixed, so that logs are the same everywhere."""

    def __init__(self, console: Console) -> None:
        self._console = console if console.is_terminal else Console(width=110)
        self._step = 0

    def step(self, text: str) -> None:
        """Print a step of the preparation before the story."""
        self._console.print(Text(text), soft_wrap=True)

    def runtime(self, text: str) -> None:
        """Print the title, with `text` about the pods' programs."""
        self._console.print(
            Panel(f"[bold]vgpu demo[/]  one node, two simulated cards\n{text}", box=box.ROUNDED)
        )

    def title(self, text: str) -> None:
        """Print a numbered heading."""
        self._step += 1
        self._console.print(f"\n[bold cyan]{self._step}  {text}[/]")

    def line(self, text: str) -> None:
        """Print one line unchanged."""
        self._console.print(Text("   " + text))

    def cards(self, cards: Iterable[Object]) -> None:
        """Print a bar of core groups for each card, coloured by pod, and below it the names of the pods."""
        for card in cards:
            owners = _owners(card["slices"])
            line = Text(f"   {card['uuid']:<22}{card['model']:<8}") + _bar(card["coreGroups"], owners)
            line.append(f"  {gib(card['freeMiB'])} of {gib(card['memMiB'])} free")
            line.append("" if card["healthy"] else "  UNHEALTHY", "bold red")
            line.append("  cordoned" if card["cordoned"] else "", "bold yellow")
            self._console.print(line)
            if owners:
                names = Text(", ").join(
                    Text(name, COLOURS[i % len(COLOURS)]) for i, name in enumerate(owners)
                )
                self._console.print(Text(" " * 33) + names)

    def requests(self, pods: Iterable[Object]) -> None:
        """Print the requests of pods."""
        rows = []
        for pod in pods:
            limits = [c["resources"]["limits"] for c in pod["spec"]["containers"]]
            asked = ", ".join(f"{name}: {amount}" for one in limits for name, amount in one.items())
            rows.append((pod["metadata"]["name"], asked))
        self._table(("pod", "asks for"), rows)

    def slices(self, slices: Mapping[str, Slice]) -> None:
        """Print the memory and core groups of each pod's slice."""
        rows = [
            (name, held.card, gib(held.mem_mib), f"{len(held.cores)}: {ranges(held.cores)}")
            for name, held in slices.items()
        ]
        self._table(("pod", "card", "memory", "core groups"), rows)

    def reports(self, seen: Mapping[str, Object], slices: Mapping[str, Slice]) -> None:
        """Print the report of the program inside each pod next to its slice."""
        rows = [
            (
                name, f"{report['total_mib']} MiB", f"{report['free_mib']} MiB", str(report["units"]),
                report["name"], f"{slices[name].mem_mib} MiB, {len(slices[name].cores)} groups",
            )
            for name, report in seen.items()
        ]  # fmt: skip
        self._table(("pod", "total memory", "free memory", "units", "device", "granted"), rows)

    def limit(self, refused: Object, neighbour: Object) -> None:
        """Print the refused allocation of one pod, and the granted allocation of its neighbour."""
        self._console.print(f"   greedy asks for {refused['mib']} MiB: [bold red]{refused['error']}[/]")
        self._console.print(
            f"   inference, on the same card, allocates {neighbour['mib']} MiB: [bold green]done[/]"
        )

    def metrics(self, samples: Iterable[str]) -> None:
        """Print sample lines in Prometheus' format."""
        for sample in samples:
            self._console.print(Text("   " + sample, style="dim"), soft_wrap=True)

    def queue(self, jobs: Sequence[Mapping[str, Any]]) -> None:
        """Print the Jobs of a queue as `vgpu queue` does."""
        self._said("vgpu queue", as_table(jobs))

    def why(self, job: str, answer: Answer) -> None:
        """Print the answer of `vgpu why JOB`."""
        self._said(f"vgpu why {job}", "\n".join(lines(answer, Terminal(width=100), time.time())))

    def events(self, job: str, events: Iterable[str]) -> None:
        """Print the events of a Job."""
        self._said(f"kubectl describe job {job}", "\n".join(events))

    def broken(self, text: str) -> None:
        """Print the check that failed."""
        self._console.print(f"\n[bold red]not as it should be:[/] {text}")

    def end(self, seconds: float, *, keep: bool) -> None:
        """Print the last lines."""
        self._console.print(f"\n[bold green]Everything held, in {seconds:.0f} s.[/]")
        if keep:
            self._console.print(
                "The cluster goes on running, with two notebooks, a Job in a queue and a pod that waits. It ends with"
                " [bold].venv/bin/vgpu demo end[/]\n"
                'For vgpu and kubectl there: [bold]eval "$(.venv/bin/vgpu demo env)"[/]\n'
                "Then try: [bold]vgpu ui[/], [bold]vgpu cards[/], [bold]vgpu why huge[/], [bold]vgpu jobs[/],"
                " [bold]vgpu stop train[/], [bold]vgpu resume train[/], [bold]vgpu waste --idle 1m[/],"
                " [bold]kubectl exec notebook-a -- /usr/local/vgpu/vgpu-smi[/]; then docs/start.md",
                soft_wrap=True,
            )

    def _said(self, command: str, text: str) -> None:
        """Print a command and its output."""
        self._console.print(Text(f"   $ {command}", style="bold"))
        for line in text.splitlines():
            self._console.print(Text("   " + line, style="dim"), soft_wrap=True)

    def _table(self, titles: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
        table = Table(*titles, box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 1))
        for row in rows:
            table.add_row(*row)
        self._console.print(table)


def _owners(slices: Iterable[Object]) -> Mapping[str, int]:
    """The core groups of each pod, as a mask, in the order of the pods' first core groups."""
    owners: dict[str, int] = {}
    for held in sorted(slices, key=lambda held: min(held["cores"])):
        owners[held["pod"]] = owners.get(held["pod"], 0) | core_mask(held["cores"])
    return owners


def _bar(groups: int, owners: Mapping[str, int]) -> Text:
    """A bar of BAR cells; a cell has the colour of the pod that holds its first core group."""
    bar = Text()
    for cell in range(BAR):
        core = cell * groups // BAR
        owner = next((i for i, mask in enumerate(owners.values()) if mask >> core & 1), None)
        bar.append(
            "█" if owner is not None else "░", "dim" if owner is None else COLOURS[owner % len(COLOURS)]
        )
    return bar
