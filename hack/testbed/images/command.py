"""hack/image: the images of the project and of its tests, as OCI archives, without Docker and without a registry.

hack/image list
hack/image build                    # all of them; prints where the archives are
hack/image build vgpu --tag 0.0.9   # one of them
hack/image build vgpu --architecture arm64
"""

import argparse
import contextlib
import subprocess
import sys

from hack.testbed import images, programs
from hack.testbed.images import ours
from vgpu_runtime.sim.debian import DebianUnavailableError


def main() -> int:
    """Carry out one command; returns the exit status."""
    arguments = _parser().parse_args()
    if arguments.command == "list":
        for name, text in images.NAMES.items():
            print(f"{name:<12}{text}")
        return 0
    try:
        with contextlib.redirect_stdout(sys.stderr):  # callers read paths from stdout
            archives = [
                images.build(name, tag=arguments.tag, architecture=arguments.architecture)
                for name in arguments.name or images.NAMES
            ]
    except (DebianUnavailableError, programs.MissingError) as error:
        print(f"hack/image: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"hack/image: {error.cmd[0]} ended with status {error.returncode}", file=sys.stderr)
        return 1
    print(*archives, sep="\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hack/image", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("list", help="the names of the images")
    build = commands.add_parser("build", help="make what is out of date and print where the archives are")
    build.add_argument("name", nargs="*", type=_name, metavar="NAME", help="see list (default: all)")
    build.add_argument(
        "--tag", default=ours.TAG, help="of the images vgpu and simulated (default: %(default)s)"
    )
    build.add_argument(
        "--architecture", choices=ours.MACHINES, default="amd64",
        help="of the machines that the image vgpu is for (default: %(default)s)",
    )  # fmt: skip
    return parser


def _name(text: str) -> str:
    if text not in images.NAMES:
        raise argparse.ArgumentTypeError(f"no image {text}; there are: {', '.join(images.NAMES)}")
    return text


if __name__ == "__main__":
    sys.exit(main())
