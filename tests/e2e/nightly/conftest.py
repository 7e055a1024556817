"""Tests on a real cluster that take too long for `make e2e`; `hack/nightly` runs them."""

import os

from hack.testbed import nightly

if os.environ.get(nightly.WANTED) != "true":
    collect_ignore_glob = ["test_*.py"]
