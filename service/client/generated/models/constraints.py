from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

from ..models.constraints_allow_item import ConstraintsAllowItem, check_constraints_allow_item
from ..models.constraints_frameworks_item import ConstraintsFrameworksItem, check_constraints_frameworks_item
from ..types import UNSET, Unset

T = TypeVar("T", bound="Constraints")


@_attrs_define
class Constraints:
    """Bounds of the search.

    Attributes:
        max_gpus (int | Unset): Largest number of GPUs to try; default 1024.
        max_nodes (int | Unset): Largest number of nodes.
        gpus_per_node (int | Unset): GPUs of a node; any number of them within one, beyond it whole nodes. Default 8.
        global_batch_size (int | Unset): Sequences per optimizer step: micro batch x accumulation x data parallel.
        frameworks (list[ConstraintsFrameworksItem] | Unset): Ways to train that may be used; `transformers` is all of
            its own. Default all; in how-many those of `framework`.
        allow (list[ConstraintsAllowItem] | Unset): What is used only when it is allowed: offload (training), quantised
            weights (serving).
        max_cost_per_hour (float | Unset): USD per hour of all GPUs.
        max_step_time_s (float | Unset): Seconds of one optimizer step.
        max_hours (float | Unset): Hours for the workload's `num_tokens`.
        max_prefill_time_s (float | Unset): Serving: seconds until all prompts are read.
        max_time_per_output_token_s (float | Unset): Serving: seconds of one decode step with the full cache.
        min_tokens_per_second (float | Unset): Tokens per second of the whole job; serving: of all replicas, whose
            number is then searched.
        min_num_sequences (int | Unset): Serving: sequences that all replicas serve at once, `num_sequences` each; their
            number is searched.
    """

    max_gpus: int | Unset = UNSET
    max_nodes: int | Unset = UNSET
    gpus_per_node: int | Unset = UNSET
    global_batch_size: int | Unset = UNSET
    frameworks: list[ConstraintsFrameworksItem] | Unset = UNSET
    allow: list[ConstraintsAllowItem] | Unset = UNSET
    max_cost_per_hour: float | Unset = UNSET
    max_step_time_s: float | Unset = UNSET
    max_hours: float | Unset = UNSET
    max_prefill_time_s: float | Unset = UNSET
    max_time_per_output_token_s: float | Unset = UNSET
    min_tokens_per_second: float | Unset = UNSET
    min_num_sequences: int | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        max_gpus = self.max_gpus

        max_nodes = self.max_nodes

        gpus_per_node = self.gpus_per_node

        global_batch_size = self.global_batch_size

        frameworks: list[str] | Unset = UNSET
        if not isinstance(self.frameworks, Unset):
            frameworks = []
            for frameworks_item_data in self.frameworks:
                frameworks_item: str = frameworks_item_data
                frameworks.append(frameworks_item)

        allow: list[str] | Unset = UNSET
        if not isinstance(self.allow, Unset):
            allow = []
            for allow_item_data in self.allow:
                allow_item: str = allow_item_data
                allow.append(allow_item)

        max_cost_per_hour = self.max_cost_per_hour

        max_step_time_s = self.max_step_time_s

        max_hours = self.max_hours

        max_prefill_time_s = self.max_prefill_time_s

        max_time_per_output_token_s = self.max_time_per_output_token_s

        min_tokens_per_second = self.min_tokens_per_second

        min_num_sequences = self.min_num_sequences

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if max_gpus is not UNSET:
            field_dict["max_gpus"] = max_gpus
        if max_nodes is not UNSET:
            field_dict["max_nodes"] = max_nodes
        if gpus_per_node is not UNSET:
            field_dict["gpus_per_node"] = gpus_per_node
        if global_batch_size is not UNSET:
            field_dict["global_batch_size"] = global_batch_size
        if frameworks is not UNSET:
            field_dict["frameworks"] = frameworks
        if allow is not UNSET:
            field_dict["allow"] = allow
        if max_cost_per_hour is not UNSET:
            field_dict["max_cost_per_hour"] = max_cost_per_hour
        if max_step_time_s is not UNSET:
            field_dict["max_step_time_s"] = max_step_time_s
        if max_hours is not UNSET:
            field_dict["max_hours"] = max_hours
        if max_prefill_time_s is not UNSET:
            field_dict["max_prefill_time_s"] = max_prefill_time_s
        if max_time_per_output_token_s is not UNSET:
            field_dict["max_time_per_output_token_s"] = max_time_per_output_token_s
        if min_tokens_per_second is not UNSET:
            field_dict["min_tokens_per_second"] = min_tokens_per_second
        if min_num_sequences is not UNSET:
            field_dict["min_num_sequences"] = min_num_sequences

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        max_gpus = d.pop("max_gpus", UNSET)

        max_nodes = d.pop("max_nodes", UNSET)

        gpus_per_node = d.pop("gpus_per_node", UNSET)

        global_batch_size = d.pop("global_batch_size", UNSET)

        _frameworks = d.pop("frameworks", UNSET)
        frameworks: list[ConstraintsFrameworksItem] | Unset = UNSET
        if _frameworks is not UNSET:
            frameworks = []
            for frameworks_item_data in _frameworks:
                frameworks_item = check_constraints_frameworks_item(frameworks_item_data)

                frameworks.append(frameworks_item)

        _allow = d.pop("allow", UNSET)
        allow: list[ConstraintsAllowItem] | Unset = UNSET
        if _allow is not UNSET:
            allow = []
            for allow_item_data in _allow:
                allow_item = check_constraints_allow_item(allow_item_data)

                allow.append(allow_item)

        max_cost_per_hour = d.pop("max_cost_per_hour", UNSET)

        max_step_time_s = d.pop("max_step_time_s", UNSET)

        max_hours = d.pop("max_hours", UNSET)

        max_prefill_time_s = d.pop("max_prefill_time_s", UNSET)

        max_time_per_output_token_s = d.pop("max_time_per_output_token_s", UNSET)

        min_tokens_per_second = d.pop("min_tokens_per_second", UNSET)

        min_num_sequences = d.pop("min_num_sequences", UNSET)

        constraints = cls(
            max_gpus=max_gpus,
            max_nodes=max_nodes,
            gpus_per_node=gpus_per_node,
            global_batch_size=global_batch_size,
            frameworks=frameworks,
            allow=allow,
            max_cost_per_hour=max_cost_per_hour,
            max_step_time_s=max_step_time_s,
            max_hours=max_hours,
            max_prefill_time_s=max_prefill_time_s,
            max_time_per_output_token_s=max_time_per_output_token_s,
            min_tokens_per_second=min_tokens_per_second,
            min_num_sequences=min_num_sequences,
        )

        return constraints
