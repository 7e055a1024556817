"""The rule for docstrings refuses what it should; `make lint` applies it to all of them."""

from pathlib import Path

import pytest

from hack import docstrings


@pytest.mark.parametrize(
    "text",
    [
        "What a pod asks for.",
        "The cards. Those of another node are left out.",
        "The cards.\n\nThat of the node is first.",
        "The cards: Of two the first.",
        "The cards\nof a node. Who asks\ngets them.",
        "The last two (of three). One that is free counts.",
        "- The first.\n- What is left.",
        "Waits so many seconds.",
        "Waits, and at\nlast returns.",
        "At last it returns.",
        "See `A`. What is free?\nWhat is free is taken.",
        "Fails so\noften that the kubelet waits.",
        "Sleeps for so long, then reads.",
        "The pods that it was told of.",
        "The nodes, sorted as\nabove.",
        "A victim would end for nothing.",
        "The one that is free.",
        "The free cards, and the ones\nthat are shared.",
        "Reads the list anew.",
        "The containers beside the first.",
        "The slices that are of use to the pod.",
        "Pods of another scheduler are let be.",
        "The service, put together.",
        "Hold what is left of it.",
    ],
)
def test_it_refuses(text: str) -> None:
    assert len(list(docstrings.bad(text))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "The cards of a node, and what each of them has.",
        "Whatever is free: those of one node, of which none is taken.",
        "What is a percent? A part of the memory.",
        "`What` names the request. `Of. What` too.",
        "The call:\n\n    What it prints. What it returns.\n\nNothing else.",
        "An office that is open. Offers it. Thatched roofs.",
        "The last one, e.g. of a list.",
        "The one free card; that one is taken.",
        "So the many cards, often shared, last long.",
        "Besides, the figures of use per card, all left together.",
        "Calls `told`, then returns what is lost.",
    ],
)
def test_it_accepts(text: str) -> None:
    assert list(docstrings.bad(text)) == []


def test_each_refused_sentence_has_its_line(tmp_path: Path) -> None:
    package = tmp_path / "hack" / "inner"
    package.mkdir(parents=True)
    (package / "cards.py").write_text(
        '"""Cards.\n\nThe first. What\nfollows it.\n"""\n\nMOST = 1\n"""That of a card."""\n\n\n'
        'def scan() -> None:\n    """Reads all.\n\n    Of two, the first.\n    """\n    print("What is left.")\n'
    )
    (package / "cards_pb2.py").write_text('"""What is generated."""\n')
    assert sorted(docstrings.check(tmp_path)) == [
        "hack/inner/cards.py:14: Of two, the first.",
        "hack/inner/cards.py:3: What follows it.",
        "hack/inner/cards.py:8: That of a card.",
    ]
