"""`vgpu demo`: a cluster on this machine with simulated cards, and the story that `make demo` shows on it.

vgpu demo run [--keep]     the story; with --keep the cluster stays
vgpu demo env              lines for a shell that make vgpu and kubectl use the cluster: eval "$(vgpu demo env)"
vgpu demo end              end the cluster
"""

import argparse
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from rich.console import Console

from hack.demo import access, queue_story, session
from hack.demo.demo_api import DemoApi
from hack.demo.leave import leave
from hack.demo.show import StoryPage
from hack.demo.story import CheckFailedError, tell
from hack.embedded.person import NotInTimeError
from vgpu_runtime.sim import hip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vgpu demo`."""
    actions = parser.add_subparsers(metavar="ACTION", required=True)

    def add(name: str, text: str, action: Callable[[argparse.Namespace], None]) -> argparse.ArgumentParser:
        added = actions.add_parser(name, help=text)
        added.set_defaults(action=action)
        return added

    run_ = add("run", "start the cluster, show the story, end it", run_story)
    run_.add_argument("--keep", action="store_true", help="leave the cluster running at the end")
    add("env", "print lines for a shell that make vgpu and kubectl use the cluster", env)
    add("end", "end the cluster", end)


def run(args: argparse.Namespace) -> int:
    """Do the chosen action. Raises VgpuError if it cannot be done."""
    args.action(args)
    return 0


def run_story(args: argparse.Namespace) -> None:
    """Show the story on a new cluster; exits with 1 if a check fails. Raises DemoError if a cluster runs already."""
    session.forbid()
    page = StoryPage(Console())
    page.runtime(_runtime(page))
    started = time.monotonic()
    current = session.start()
    try:
        with closing(DemoApi(current)) as api:
            tell(api, page)
            queue_story.tell(api, page)
            if args.keep:
                leave(api)
    except (CheckFailedError, NotInTimeError) as error:
        page.broken(str(error))
        sys.exit(1)
    finally:
        if not args.keep:
            session.end()
    page.end(time.monotonic() - started, keep=args.keep)


def env(_: argparse.Namespace) -> None:
    """Print the lines that make a shell use the cluster."""
    print(access.variables(Path(session.require().root)), end="")


def end(_: argparse.Namespace) -> None:
    """End the cluster, if one runs."""
    print("the demo cluster has ended" if session.end() else "no demo cluster is running")


def _runtime(page: StoryPage) -> str:
    cache = hip.default_cache()
    if not hip.present(cache):
        page.step(f"set-up: HIP {hip.VERSION} from Debian's packages, 80 to 190 MB in {cache} (usually 20 s)")
    try:
        hip.ensure(cache)
    except hip.HipUnavailableError as error:
        return f"no HIP runtime ({error}): the pods use a small program that asks the driver itself"
    return f"HIP {hip.VERSION} and ROCr from Debian's packages, over a simulated kernel driver"
