"""Makes layers and archives of images, and keeps them in the cache."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from hack.testbed.images import cache, oci


def layer(name: str, fill: Callable[[Path], None], *inputs: object) -> Path:
    """The path of a layer with the files that `fill(folder)` writes; they may depend only on `inputs`."""

    def make(target: Path) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            root = Path(scratch) / "root"
            fill(root)
            oci.write_layer(root, target)

    return cache.keep(cache.folder() / "layers" / f"{name}-{cache.fingerprint(*inputs)}.tar", make)


def archive(name: str, image: oci.Image) -> Path:
    """The path of the image's archive in the cache, where it is written if it is missing.

    The names of layers are part of its key: layers of the same name must always have the same content.
    """
    key = cache.fingerprint(image.reference, [layer.name for layer in image.layers], image.config)
    return cache.keep(cache.folder() / f"{name}-{key}.tar", lambda target: oci.write_archive(image, target))
