"""The four boards, a module each. One look at the board of the cluster shows where room is."""

from hack.generate.monitoring.boards import card, cluster, namespace, node

BOARDS = (cluster.BOARD, node.BOARD, card.BOARD, namespace.BOARD)
