"""The request for a checkpoint, as the annotation `vgpu.io/checkpoint` of the pod of index 0 carries it."""

from dataclasses import dataclass

from device_plugin.core.contract import annotations


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The program is to save now, because pods of its Job are about to leave: for the record `gen` of the Job.

    It has time until `until`, in whole seconds since 1970, which a program compares with its own clock. `saved` is the
    number of checkpoints that the program had reported at the request: the request is answered when that number grows.
    """

    gen: int
    until: int
    saved: int = 0

    def encode(self) -> str:
        """The text of the annotation: one line of JSON."""
        return annotations.write_object({"gen": self.gen, "until": self.until, "saved": self.saved})

    @classmethod
    def decode(cls, text: str) -> "Checkpoint":
        """The request in an annotation's text; unknown keys are ignored. Raises AnnotationError if malformed."""
        fields = annotations.read_object(text, "checkpoint")
        return cls(fields.integer("gen", least=1), fields.integer("until"), fields.integer("saved"))
