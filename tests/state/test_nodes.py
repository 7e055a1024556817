"""KnownNodes: one index until something changes that constraints look at."""

from dataclasses import replace

from device_plugin.core.node_constraints import Taint
from device_plugin.core.pods import Node
from device_plugin.state.nodes import KnownNodes

ONE = Node("n1", "cards", labels={"zone": "a"})


def test_the_index_stays_until_labels_or_taints_change() -> None:
    known = KnownNodes()
    known.sync([ONE, Node("n2", "cards")])
    index = known.index()
    known.see(replace(ONE, inventory="other cards", kubelet="v2"))
    assert known.index() is index
    known.see(replace(ONE, taints=(Taint("k"),)))
    assert known.index() is not index
    index = known.index()
    known.see(replace(ONE, labels={"zone": "b"}))
    assert known.index() is not index


def test_nodes_without_cards_and_nodes_that_are_gone_are_not_kept() -> None:
    known = KnownNodes()
    known.sync([ONE, Node("n2", "cards"), Node("n3")])
    assert known.index().names == ("n1", "n2")
    known.gone("n3")
    known.see(replace(ONE, inventory=""))
    assert known.index().names == ("n2",)
    known.sync([ONE])
    assert known.index().names == ("n1",)
