"""Dispatch mode that listens to operators, names and autograd's graph.

A pass is listened to twice. Once its graph keeps nothing (every saved tensor is packed as a
number), so that a storage ends with the last name that Python has for it; once it runs backward.
"""

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import PreTrainedModel

from worker.probes.architecture.listening.cache_updates import listen_to_caches
from worker.probes.architecture.listening.raw_pass import (
    RawEntry,
    RawExit,
    RawGradient,
    RawNode,
    RawOperation,
    RawPass,
    RawRelease,
    RawValue,
)
from worker.probes.architecture.listening.rewrites import find_rewritten, name_viewed
from worker.probes.architecture.listening.trees import find_linears, iterate_tensors
from worker.probes.trace.cuda_kernels import OUTPUTS, SCRATCH
from worker.probes.trace.fake_calls import call_fake

_DEVICE = torch.ops.prim.device.default
_LEAF = "torch::autograd::AccumulateGrad"


class Listener(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Listens to a pass, whose graph ``packs`` numbers for tensors."""

    def __init__(self, model: PreTrainedModel, *, packs: bool) -> None:
        """Know the model's weights by name."""
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.raw = RawPass()
        self.packs = packs
        self._listening = False
        self._parameters = {id(weight): name for name, weight in model.named_parameters()}
        self._model = model
        self._names = {id(module): name for name, module in model.named_modules()}
        self._linears = find_linears(model)
        self._fixed = {
            tensor.untyped_storage()._cdata  # noqa: SLF001 - the storage's identity
            for tensor in (*model.buffers(), *model.parameters())
        }
        self._storages: dict[int, int] = {}
        self._references: dict[int, weakref.ref[Any]] = {}
        self._values: dict[int, tuple[weakref.ref[torch.Tensor], int]] = {}
        self._nodes: dict[int, RawNode] = {}
        self._functions: list[Any] = []
        self._packed: list[int | None] = []
        self._unpacked: list[int | None] = []
        self._running: RawNode | None = None
        self._inspecting = False
        self._rewritten: tuple[RawOperation, weakref.ref[torch.Tensor]] | None = None

    @contextmanager
    def listen(self) -> Iterator[None]:
        """Listen to the forward pass of the block."""

        def enter(module: nn.Module, args: tuple[object, ...], named: dict[str, object]) -> None:
            self._number_rewritten()
            self.raw.events.append(
                RawEntry(
                    module=self._names[id(module)],
                    kind="Linear" if id(module) in self._linears else type(module).__name__,
                    inputs=self._number_all((args, named)),
                )
            )

        def leave(module: nn.Module, _args: object, output: object) -> None:
            self._number_rewritten()
            outputs = self._number_all(output)
            self.raw.events.append(RawExit(module=self._names[id(module)], outputs=outputs))
            if id(module) in self._linears:
                name_viewed(output, outputs[0], self._find_node)

        hooks: list[Any] = [
            hook
            for module in self._model.modules()
            for hook in (
                module.register_forward_pre_hook(enter, with_kwargs=True),
                module.register_forward_hook(leave),
            )
        ]
        self._listening = True
        packing = torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack)
        try:
            with (
                listen_to_caches(self.raw.events, self._number_all),
                packing if self.packs else nullcontext(),
            ):
                yield
        finally:
            self._listening = False
            for hook in hooks:
                hook.remove()

    def number(self, tensor: torch.Tensor) -> int:
        """Return the number of a tensor, its node known."""
        entry = self._values.get(id(tensor))
        is_numbered = entry is not None and entry[0]() is tensor
        value = entry[1] if entry is not None and is_numbered else self._add_value(tensor)
        if tensor.grad_fn is not None:
            node = self._find_node(tensor.grad_fn)
            node.outputs.setdefault(tensor.output_nr, value)
        return value

    def _number_all(self, tree: object) -> list[int]:
        return [self.number(tensor) for tensor in iterate_tensors(tree)]

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        """Run an operator and note what it reads and makes."""
        named = dict(kwargs or {})
        if func is _DEVICE and type(args[0]) is FakeTensor:
            return args[0].fake_device
        if self._inspecting:
            return call_fake(func, *args, **named)
        call: Callable[..., object] = OUTPUTS.get(func, call_fake)
        self._number_rewritten()
        inputs = self._number_all((args, named)) if self._listening else []
        output = call(func, *args, **named)
        scratch = tuple(SCRATCH[func](*args, **named)) if func in SCRATCH else ()
        if self._listening:
            operation = self._note_operation(str(func), inputs, output, scratch)
            if (base := find_rewritten(func, args)) is not None:
                self._rewritten = operation, weakref.ref(base)
        else:
            self._note_backward(str(func), output, scratch)
        return output

    def _number_rewritten(self) -> None:
        """Give a tensor a new number where its graph has changed."""
        if self._rewritten is None:
            return
        (operation, reference), self._rewritten = self._rewritten, None
        base = reference()
        if base is None or base.grad_fn is None:
            return
        node = self._find_node(base.grad_fn)
        if not node.outputs:
            value = node.outputs[base.output_nr] = self._add_value(base)
            operation.outputs.append(value)

    def _note_operation(
        self, operator: str, inputs: list[int], output: object, scratch: tuple[int, ...]
    ) -> RawOperation:
        operation = RawOperation(operator=operator, inputs=inputs, scratch=scratch)
        self.raw.events.append(operation)
        before = len(self.raw.sizes)
        operation.outputs = [
            self._add_value(tensor)
            for tensor in iterate_tensors(output)
            if tensor.device.type != "meta"
        ]
        operation.allocated = list(range(before, len(self.raw.sizes)))
        return operation

    def _note_backward(self, operator: str, output: object, scratch: tuple[int, ...]) -> None:
        before = len(self.raw.sizes)
        for tensor in iterate_tensors(output):
            if tensor.device.type != "meta":
                self._place(tensor)
        if self._running is not None:
            ends = range(len(self.raw.sizes), len(self.raw.sizes) + len(scratch))
            self.raw.sizes += scratch
            # A kernel's buffers are there together, until it is done.
            self._running.events += [("allocate", n, operator) for n in range(before, ends.stop)]
            self._running.events += [("free", n, "") for n in ends]

    def _add_value(self, tensor: torch.Tensor) -> int:
        storage = self._place(tensor)
        self.raw.values.append(
            RawValue(
                numel=tensor.numel(),
                dtype=str(tensor.dtype).removeprefix("torch."),
                storage=storage,
            )
        )
        value = len(self.raw.values) - 1
        self._values[id(tensor)] = (weakref.ref(tensor), value)
        return value

    def _place(self, tensor: torch.Tensor) -> int | None:
        """Return the number of a tensor's storage, None for a weight's."""
        storage = tensor.untyped_storage()
        identity = storage._cdata  # noqa: SLF001 - the storage's identity
        if identity in self._fixed:
            return None
        if identity in self._storages:
            return self._storages[identity]
        number = len(self.raw.sizes)
        self.raw.sizes.append(storage.nbytes())
        self._storages[identity] = number

        def end(_: weakref.ref[Any]) -> None:
            if self._storages.get(identity) == number:
                del self._storages[identity]
                self._references.pop(number, None)
                self._note_end(number)

        self._references[number] = weakref.ref(storage, end)
        return number

    def _note_end(self, storage: int) -> None:
        if self._listening:
            self.raw.events.append(RawRelease(storage=storage))
        elif self._running is not None:
            self._running.events.append(("free", storage, ""))

    def _find_node(self, function: Any) -> RawNode:  # noqa: ANN401 - torch has no type for it
        """Return the record of a graph node.

        Those that it leads to get theirs.
        """
        if (record := self._nodes.get(id(function))) is not None:
            return record
        node = RawNode(
            number=len(self.raw.nodes),
            order=function._sequence_nr(),  # noqa: SLF001 - torch has no public name for it
            name=function.name(),
        )
        self._nodes[id(function)] = node
        self._functions.append(function)
        self.raw.nodes.append(node)
        for following, output in function.next_functions:
            if following is None:
                node.targets.append(None)
            elif following.name() == _LEAF:
                name = self._parameters.get(id(following.variable))
                leaf = ("leaf", self.number(following.variable), 0)
                node.targets.append(leaf if name is None else ("parameter", name, 0))
            else:
                node.targets.append(("node", self._find_node(following).number, output))
        if self.packs:
            node.saved = self._read_saved(function)
        else:
            self._hook(function, node)
        return node

    def _read_saved(self, function: Any) -> list[int | None]:  # noqa: ANN401 - torch has no type for it
        """Return the storages that a node keeps, which unpacking tells."""
        self._inspecting, self._unpacked = True, []
        names = [name for name in dir(function) if name.startswith("_saved_")]
        for name in (*names, "saved_tensors"):
            try:
                getattr(function, name, None)
            except RuntimeError:
                continue
        self._inspecting = False
        return self._unpacked

    def _pack(self, tensor: torch.Tensor) -> int:
        self._packed.append(self._place(tensor))
        return len(self._packed) - 1

    def _unpack(self, place: int) -> torch.Tensor:
        self._unpacked.append(self._packed[place])
        return torch.empty(0, device="meta")

    def _hook(self, function: Any, node: RawNode) -> None:  # noqa: ANN401 - torch has no type for it
        incoming: list[int | None] = []

        def begin(gradients: Sequence[torch.Tensor | None]) -> None:
            incoming[:] = [None if grad is None else self._place(grad) for grad in gradients]
            node.events, self._running, node.ran = [], node, True

        def end(handed_on: Sequence[torch.Tensor | None], _: object) -> None:
            self._running = None
            node.gradients = [
                None if grad is None else self._describe(grad, incoming) for grad in handed_on
            ]

        function.register_prehook(begin)
        function.register_hook(end)

    def _describe(self, gradient: torch.Tensor, incoming: list[int | None]) -> RawGradient:
        storage = self._place(gradient)
        assert storage is not None  # noqa: S101 - no gradient lies in a weight
        return RawGradient(
            storage=storage,
            is_view=gradient._is_view(),  # noqa: SLF001 - torch has no public name for it
            incoming=incoming.index(storage) if storage in incoming else None,
        )
