from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

from ..models.loss import Loss, check_loss
from ..types import UNSET, Unset

T = TypeVar("T", bound="EvaluationRequest")


@_attrs_define
class EvaluationRequest:
    """An evaluation between training steps (`eval_strategy` of transformers' Trainer).

    Attributes:
        batch_size (int | Unset): Sequences at once, `per_device_eval_batch_size`; default 8.
        sequence_length (int | Unset): Tokens of one; default those of a step.
        kept_batches (int | Unset): Batches whose logits stay on the GPU for `compute_metrics`:
            `eval_accumulation_steps`, without it every batch; 0 where losses alone are. None are counted where it is left
            out, and a warning says so.
        loss (Loss | Unset): Loss kernel, by its treatment of the logits.
    """

    batch_size: int | Unset = UNSET
    sequence_length: int | Unset = UNSET
    kept_batches: int | Unset = UNSET
    loss: Loss | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        batch_size = self.batch_size

        sequence_length = self.sequence_length

        kept_batches = self.kept_batches

        loss: str | Unset = UNSET
        if not isinstance(self.loss, Unset):
            loss = self.loss

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if batch_size is not UNSET:
            field_dict["batch_size"] = batch_size
        if sequence_length is not UNSET:
            field_dict["sequence_length"] = sequence_length
        if kept_batches is not UNSET:
            field_dict["kept_batches"] = kept_batches
        if loss is not UNSET:
            field_dict["loss"] = loss

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        batch_size = d.pop("batch_size", UNSET)

        sequence_length = d.pop("sequence_length", UNSET)

        kept_batches = d.pop("kept_batches", UNSET)

        _loss = d.pop("loss", UNSET)
        loss: Loss | Unset
        if isinstance(_loss, Unset):
            loss = UNSET
        else:
            loss = check_loss(_loss)

        evaluation_request = cls(
            batch_size=batch_size,
            sequence_length=sequence_length,
            kept_batches=kept_batches,
            loss=loss,
        )

        return evaluation_request
