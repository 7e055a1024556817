"""A kubectl for the one-machine cluster, with the commands that README, docs/start.md and our programs call.

It starts as fast as the real one, because it needs only the standard library, and YAML to read a file. The real kubectl
does not work here: the API server stand-in does not serve the descriptions of its kinds and tables.
"""

import sys
import sysconfig
from pathlib import Path

# The program finds our sources and the YAML package by `paths`, which saves the start of a virtual environment.
_SCRIPT = """\
#!{python} -IS
import sys
sys.path[:0] = {paths!r}
from hack.embedded.kubectl.command import main
sys.exit(main(sys.argv[1:]))
"""


def install(folder: Path) -> None:
    """Write the program `kubectl` into a folder."""
    paths = [str(Path(__file__).parents[3]), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "kubectl"
    program.write_text(_SCRIPT.format(python=sys.executable, paths=paths))
    program.chmod(0o755)
