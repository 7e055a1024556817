"""Exceptions of the core.

VgpuError
├── RequestError      a pod asks for something malformed; the text says what to write instead
└── AnnotationError   an inventory or grant annotation cannot be trusted; the text says why
"""


class VgpuError(Exception):
    """Base of every error that this project raises on purpose."""


class RequestError(VgpuError):
    """A container's limits or the pod's labels are malformed. The text is shown to the pod's author.

    Cure: change the pod as the message says; page "Requests" of the documentation has examples.
    """


class AnnotationError(VgpuError):
    """An annotation is malformed, of another version, or of an absurd size.

    Cure: for a grant, delete the pod, so that its controller creates another; for an inventory or a record, restart the
    node's agent, which writes it again, and run agents and allocator in the same version; for a resize, remove the
    annotation from the Job. Until then the annotation is ignored.
    """
