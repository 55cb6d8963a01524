"""Graph of a checkpointed block's first forward.

Backward begins with it. A block is computed again when backward first needs a tensor that was
dropped. Whatever stands behind the last operation that kept one (casts, factors, sums of adapters)
has run by then, and its gradients are alive while the block is recomputed.
"""

from collections.abc import Iterator, Sequence

from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Hook, Node, Segment


class FirstPass:
    """The nodes of a block, its entry and its output node.

    The nodes are in order of creation.
    """

    def __init__(
        self,
        entry: Node,
        nodes: Sequence[Node | Hook | Segment],
        output: Node | None,
        *,
        num_saved: int,
    ) -> None:
        """Keep the nodes of the first forward.

        ``entry`` collects the gradient of the block's input, ``num_saved`` counts what the nodes
        would keep.
        """
        self.entry, self.nodes, self.output, self.num_saved = (
            entry,
            _select_nodes(nodes),
            output,
            num_saved,
        )

    def iter_ready_nodes(self, grad: Storage) -> Iterator[Node]:
        """Yield the nodes that run before anything must be recomputed.

        They run on the output's gradient, each when its own gradient is there.
        """
        if self.output is not None:
            self.output.grad = grad
        for node in reversed(self.nodes):
            if node.grad is None:
                continue
            if not node.needs_only_grad:
                return
            yield node

    def hand_over(self, entry: Node, nodes: Sequence[Node | Hook | Segment]) -> None:
        """Move waiting gradients to the nodes of the second forward."""
        for old, new in zip((self.entry, *self.nodes), (entry, *_select_nodes(nodes)), strict=True):
            new.grad, new.grad_is_view, old.grad = old.grad, old.grad_is_view, None


def _select_nodes(nodes: Sequence[Node | Hook | Segment]) -> list[Node]:
    return [node for node in nodes if isinstance(node, Node)]
