"""Situations of a request or of a pod: each has a value for programs, a text for people, and advice."""

from enum import Enum
from typing import Self


class Situation(Enum):
    """The base of enums whose members are written as value, text and advice; the value is in metrics and JSON.

    The advice is for the pod's author or the cluster's operator; it is empty if there is nothing to do.
    """

    text: str
    advice: str

    def __new__(cls, value: str, text: str, advice: str) -> Self:
        member = object.__new__(cls)
        member._value_ = value
        member.text = text
        member.advice = advice
        return member
