"""The graph of a checkpointed block's first forward, which backward begins with.

A block is computed again when backward first needs a tensor that was dropped. Whatever stands behind the last operation that
kept one (casts, factors, sums of adapters) has run by then, and its gradients are alive while the block is recomputed.
"""

from collections.abc import Iterator, Sequence

from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Hook, Node, Segment


class FirstPass:
    """The nodes of a block in order of creation, with what stands for its input and what made its output."""

    def __init__(self, entry: Node, nodes: Sequence[Node | Hook | Segment], output: Node | None, *, num_saved: int) -> None:
        """Keep the nodes; ``entry`` collects the gradient of the block's input, ``num_saved`` counts what they would keep."""
        self.entry, self.nodes, self.output, self.num_saved = entry, _operations(nodes), output, num_saved

    def ahead(self, grad: Storage) -> Iterator[Node]:
        """Yield the nodes that run on the output's gradient before anything must be recomputed, each when its own is there."""
        if self.output is not None:
            self.output.grad = grad
        for node in reversed(self.nodes):
            if node.grad is None:
                continue
            if not node.plain:
                return
            yield node

    def hand_over(self, entry: Node, nodes: Sequence[Node | Hook | Segment]) -> None:
        """Give what waits at a node to the node that was made in its place by the second forward."""
        for old, new in zip((self.entry, *self.nodes), (entry, *_operations(nodes)), strict=True):
            new.grad, new.grad_is_view, old.grad = old.grad, old.grad_is_view, None


def _operations(nodes: Sequence[Node | Hook | Segment]) -> list[Node]:
    return [node for node in nodes if isinstance(node, Node)]
