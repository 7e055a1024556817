"""The request for a checkpoint, in the annotation `vgpu.io/checkpoint` of a Job's pod of index 0."""

import msgspec

from device_plugin.core.contract.codec import Amount, Count, Reader, write_object


class Checkpoint(msgspec.Struct, frozen=True, gc=False):
    """A request to a program to save a checkpoint now, because pods of its Job will be deleted.

    `gen` is the number of the Job's record (its latest change of width) in `vgpu.io/resize`. The program has time until
    `until`, in whole seconds since 1970 of its own clock. `saved` is the number of checkpoints that the program had
    reported at the request: the request is answered when that number grows.
    """

    gen: Count
    until: Amount
    saved: Amount

    def encode(self) -> str:
        """The request as text for the annotation: one line of JSON."""
        return write_object(msgspec.to_builtins(self))

    @classmethod
    def decode(cls, text: str) -> "Checkpoint":
        """The request in an annotation's text; unknown keys are ignored. Raises AnnotationError if malformed."""
        return _READER.read(text)


_READER = Reader(Checkpoint, "checkpoint")
