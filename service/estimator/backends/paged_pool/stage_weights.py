"""Weights of one rank of a serving engine, by pipeline stage."""

from service.estimator.backends.paged_pool.marlin_padding import pad_to_tiles
from service.estimator.memory.overheads.allocator_rounding import rounding_bytes
from service.estimator.model.architecture import Architecture
from service.estimator.model.quantization.weights import iter_placements, stored_bytes
from service.estimator.model.recorded.narrowing import is_recorded
from service.estimator.model.weights.scheme import Packing, Scheme
from service.estimator.model.weights.tensors import Weight
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.units import ceil_div

_EXPERTS = "mlp_experts"
_MERGED = (frozenset({"q_proj", "k_proj", "v_proj"}), frozenset({"gate_proj", "up_proj"}))
"""Layers that engines load as one tensor (``QKVParallelLinear``, ``MergedColumnParallelLinear``).
"""


class StageWeights:
    """Bytes of a rank's weights, by the stage that holds them.

    Large tensors include what the allocator does not split off.
    """

    def __init__(
        self,
        model: Architecture,
        *,
        scheme: Scheme | None,
        dtype: DType,
        expert_spread: int,
        tiles: bool,
    ) -> None:
        """Count a model's bytes, its experts spread over groups of ranks."""
        self.model, self.dtype = model, dtype
        if expert_spread > 1 and model.spec.num_experts % expert_spread:
            message = (
                f"expert_parallel {expert_spread} does not divide {model.spec.num_experts} experts"
            )
            raise InvalidInputError(message, field="layout.expert_parallel")
        total = experts = 0
        sizes = _list_weight_sizes(model, scheme, dtype, tiles=tiles)
        for weight, size, _ in sizes:
            total += size
            experts += size if weight.kind == _EXPERTS else 0
        rounding = rounding_bytes(_merge_projections(sizes))
        self.blocks = (
            total
            - experts
            + ceil_div(experts, expert_spread)
            - self._get_front_bytes()
            - self._get_end_bytes()
            + rounding
        )
        self.numel = [sum(weight.numel for weight in block.weights()) for block, _ in model.blocks]

    def get_stage_bytes(self, kinds: tuple[int, ...], *, is_first: bool, is_last: bool) -> int:
        """Return the bytes of one stage.

        A tied head stands on the last stage again.
        """
        total = sum(
            numel * count for numel, (_, count) in zip(self.numel, self.model.blocks, strict=True)
        )
        staged = sum(numel * count for numel, count in zip(self.numel, kinds, strict=True))
        outside = (self._get_front_bytes() if is_first else 0) + (
            self._get_end_bytes() if is_last else 0
        )
        if is_last and not is_first and self.model.tied:
            outside += self.model.embedding.numel * self.dtype.bytes_per_element
        return self.blocks * staged // total + outside

    def _get_front_bytes(self) -> int:
        model = self.model
        weights = [
            model.embedding,
            *([model.position_embedding] if model.position_embedding is not None else []),
        ]
        elements = sum(weight.numel for weight in (*weights, *model.stem))
        last = sum(weight.numel for weight in _list_last_weights(model))
        return (elements - last) * self.dtype.bytes_per_element

    def _get_end_bytes(self) -> int:
        model = self.model
        head = () if model.tied else tuple(model.head.weights())
        norm = tuple(model.final_norm.weights()) if model.final_norm is not None else ()
        weights = (*head, *norm, *_list_last_weights(model))
        return sum(weight.numel for weight in weights) * self.dtype.bytes_per_element


def _list_last_weights(model: Architecture) -> tuple[Weight, ...]:
    """Return tensors of the stem that stand after recorded layers."""
    return model.last_weights if is_recorded(model) else ()


def _list_weight_sizes(
    model: Architecture, scheme: Scheme | None, dtype: DType, *, tiles: bool
) -> list[tuple[Weight, int, int]]:
    """Return every weight with its bytes and its occurrences.

    The bytes are those of all occurrences together.
    """
    if scheme is None:
        return [
            (weight, weight.numel * count * dtype.bytes_per_element, count)
            for weight, count in model.weights()
        ]
    padded = tiles and scheme.packing is Packing.MXFP4
    return [
        (
            placement.weight,
            stored_bytes(placement, scheme, dtype).total,
            placement.num_packed + placement.num_unpacked,
        )
        for placement in (
            pad_to_tiles(item) if padded else item for item in iter_placements(model, scheme)
        )
    ]


def _merge_projections(sizes: list[tuple[Weight, int, int]]) -> list[tuple[int, int]]:
    """Return the bytes of each matrix and how often it occurs.

    Projections of one input are one matrix.
    """
    merged: list[tuple[int, int]] = []
    previous = None
    for weight, size, count in (entry for entry in sizes if len(entry[0].shape) > 1):
        name = weight.name.rpartition(".")[0].rpartition(".")[2]
        group = next((group for group in _MERGED if name in group), None)
        if group is not None and group == previous and merged:
            merged[-1] = (merged[-1][0] + size // count, count)
        else:
            merged.append((size // max(count, 1), count))
        previous = group
    return merged
