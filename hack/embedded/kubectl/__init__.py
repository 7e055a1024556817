"""kubectl of the one-machine cluster, for machines that have none: what README, docs/start.md and our commands call.

It starts as fast as the real one: with nothing but the standard library, and YAML where a file is read. The real
kubectl does not work there, because the API server stand-in describes neither its kinds nor its tables.
"""

import sys
import sysconfig
from pathlib import Path

# The sources, and the packages for files in YAML, without what a virtual environment does at each start.
_SCRIPT = """\
#!{python} -IS
import sys
sys.path[:0] = {paths!r}
from hack.embedded.kubectl.command import main
sys.exit(main(sys.argv[1:]))
"""


def install(folder: Path) -> None:
    """Put the program `kubectl` into a folder."""
    paths = [str(Path(__file__).parents[3]), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "kubectl"
    program.write_text(_SCRIPT.format(python=sys.executable, paths=paths))
    program.chmod(0o755)
