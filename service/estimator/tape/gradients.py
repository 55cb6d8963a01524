"""Gradients of a recorded pass, on their way to nodes and parameters."""

from service.estimator.tape import sizes
from service.estimator.tape.compiling import mypyc_attr
from service.estimator.tape.ledger import Category, Section, Storage
from service.estimator.tape.nodes import Parameter, Value, count_bytes
from service.estimator.tape.sizes import Size
from service.estimator.tape.storages import StorageCounter


@mypyc_attr(allow_interpreted_subclasses=True)
class GradientReceiver(StorageCounter):
    """Storages of a pass, with the gradients that wait among them.

    ``accumulating`` means that stored gradients exist already, as in a second micro batch.
    """

    def __init__(self, section: Section, *, accumulating: bool) -> None:
        """Start without gradients."""
        super().__init__(section)
        self.accumulating = accumulating
        self.steps_in_backward: int | None = None
        self.collected_gradients: list[Storage] | None = None
        self._outbox: list[tuple[Value, Storage, bool]] = []

    def send(self, target: Value, grad: Storage, *, is_view: bool = False) -> None:
        """Hand a gradient (and its reference) to the node of ``target``.

        It arrives once the node that runs has let go of its own.
        """
        self._outbox.append((target, grad, is_view))

    def deliver_outbox(self) -> None:
        """Hand on the gradients that were sent."""
        outbox, self._outbox = self._outbox, []
        for target, grad, is_view in outbox:
            self._deliver_gradient(target, grad, is_view=is_view)

    def _deliver_gradient(self, target: Value, grad: Storage, *, is_view: bool) -> None:
        if target.parameter is not None:
            self._send_to_parameter(target.parameter, grad, is_view=is_view)
        elif target.node is not None:
            size, views = (
                count_bytes(target.numel, target.dtype),
                (target.node.grad_is_view, is_view),
            )
            target.node.grad, target.node.grad_is_view = self._accumulate(
                target.node.grad, grad, size, views
            )
        else:
            self.release(grad)

    def _accumulate(
        self, old: Storage | None, new: Storage, size: Size, views: tuple[bool, bool]
    ) -> tuple[Storage, bool]:
        if old is None:
            return new, views[1]
        if old.references == 1 and not views[0]:
            self.release(new)
            return old, False
        result = self.allocate(Category.TEMPORARIES, size)
        self.release(old, new)
        return result, False

    def _send_to_parameter(self, parameter: Parameter, grad: Storage, *, is_view: bool) -> None:
        parameter.pending_gradients -= 1
        size, views = (
            sizes.constant(parameter.numel * parameter.dtype.bytes_per_element),
            (parameter.grad_is_view, is_view),
        )
        grad, is_view = self._accumulate(parameter.grad, grad, size, views)
        parameter.grad, parameter.grad_is_view = grad, is_view
        if parameter.pending_gradients > 0:
            return
        parameter.grad = None
        if self.collected_gradients is not None:
            self.collected_gradients.append(grad)
        elif self.steps_in_backward is not None:
            self.release(
                self.allocate(
                    Category.TEMPORARIES, sizes.constant(parameter.numel * self.steps_in_backward)
                ),
                grad,
            )
        elif self.accumulating:
            self.release(grad)
        else:
            self.keep_gradient(grad, parameter)

    def keep_gradient(self, grad: Storage, parameter: Parameter) -> None:
        """Turn a storage into the gradient of a parameter, which stays."""
        self.ledger.convert(grad, parameter.grad_elements)

    def keep_gradient_shard(self, elements: int) -> None:
        """Keep this rank's share of so many elements of reduced gradients."""
        self.ledger.store_gradients(elements, new=True)
