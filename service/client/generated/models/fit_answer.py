from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.fit_answer_replayed_type_0 import FitAnswerReplayedType0, check_fit_answer_replayed_type_0
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.bases_answer import BasesAnswer
    from ..models.checkpoint_answer import CheckpointAnswer
    from ..models.cluster_basis_answer import ClusterBasisAnswer
    from ..models.input_tokens_answer import InputTokensAnswer
    from ..models.per_gpu_answer import PerGpuAnswer
    from ..models.remedy_answer import RemedyAnswer
    from ..models.remedy_search_answer import RemedySearchAnswer
    from ..models.rule_answer import RuleAnswer
    from ..models.serving_answer import ServingAnswer
    from ..models.throughput_answer import ThroughputAnswer


T = TypeVar("T", bound="FitAnswer")


@_attrs_define
class FitAnswer:
    """The verdict, and everything it rests on.

    Attributes:
        verdict (str): `fits`, `tight` or `does_not_fit`.
        basis (str): `analytic`, `calibrated` or `measured`: of the allocated bytes.
        bases (BasesAnswer): What each quantity rests on: `analytic`, `calibrated` by measurements like it, or
            `measured` itself.
        replayed (FitAnswerReplayedType0 | None): What the caching allocator was replayed over: loading and two
            optimizer `steps`, or loading and two `generations` of a replica. Null where reserved bytes are a measured ratio
            of the allocated ones, or an engine's own budget: nothing is replayed there, or no replay could turn the verdict
            of an answer that did not ask for one.
        num_gpus (int): GPUs of the layout, all replicas together.
        per_gpu (PerGpuAnswer): Memory of the worst rank.
        capacity_bytes (int): NVML's total of the GPU, in bytes.
        usable_bytes (int): Bytes that a process can allocate on the GPU.
        headroom_bytes (int): Usable less device bytes, never negative.
        deficit_bytes (int): Device less usable bytes, never negative.
        host_bytes_per_node (int): Bytes that the job keeps in the memory of one node's host: what is offloaded there,
            of all ranks of the node.
        nvme_bytes_per_node (int): Bytes that the job keeps on the NVMe of one node.
        checkpoint_bytes (CheckpointAnswer | None): Bytes of a checkpoint on disk; null where nothing is trained or it
            was not asked for.
        serving (None | ServingAnswer): What a replica needs of its cache and has; null in training.
        rollout (None | ServingAnswer): What the engine of a policy's rollout has on the same GPU; null without one.
        throughput (None | ThroughputAnswer): Time of a step; null where it is not known or was not asked for, which
            `warnings` says.
        rules_of_thumb (list[RuleAnswer]): What common rules say, and by how much they are off.
        remedies (list[RemedyAnswer]): What would help where it does not fit, what fits first; empty where it fits.
        remedy_search (None | RemedySearchAnswer): Null where it fits, or remedies were not looked for.
        inputs (list[InputTokensAnswer]): What images, videos and audio become; empty where none are named.
        assumptions (list[str]): Every default that was used.
        warnings (list[str]): What the answer does not hold for, and settings that change nothing.
        calibration (None | str): Id of the calibration that the answer rests on; null of an analytic one.
        calibration_level (str): Whose measurements it rests on: of this `point`, of this `key` (another size of it), of
            its `family`, of every family (`global`), or `none`.
        calibration_measurements (int): How many measurements that are.
        cluster (ClusterBasisAnswer | Unset): What of an answer rests on measurements of a cluster's own GPUs.
    """

    verdict: str
    basis: str
    bases: BasesAnswer
    replayed: FitAnswerReplayedType0 | None
    num_gpus: int
    per_gpu: PerGpuAnswer
    capacity_bytes: int
    usable_bytes: int
    headroom_bytes: int
    deficit_bytes: int
    host_bytes_per_node: int
    nvme_bytes_per_node: int
    checkpoint_bytes: CheckpointAnswer | None
    serving: None | ServingAnswer
    rollout: None | ServingAnswer
    throughput: None | ThroughputAnswer
    rules_of_thumb: list[RuleAnswer]
    remedies: list[RemedyAnswer]
    remedy_search: None | RemedySearchAnswer
    inputs: list[InputTokensAnswer]
    assumptions: list[str]
    warnings: list[str]
    calibration: None | str
    calibration_level: str
    calibration_measurements: int
    cluster: ClusterBasisAnswer | Unset = UNSET
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        from ..models.checkpoint_answer import CheckpointAnswer  # noqa: PLC0415
        from ..models.remedy_search_answer import RemedySearchAnswer  # noqa: PLC0415
        from ..models.serving_answer import ServingAnswer  # noqa: PLC0415
        from ..models.throughput_answer import ThroughputAnswer  # noqa: PLC0415

        verdict = self.verdict

        basis = self.basis

        bases = self.bases.to_dict()

        replayed: None | str
        if isinstance(self.replayed, str):
            replayed = self.replayed
        else:
            replayed = self.replayed

        num_gpus = self.num_gpus

        per_gpu = self.per_gpu.to_dict()

        capacity_bytes = self.capacity_bytes

        usable_bytes = self.usable_bytes

        headroom_bytes = self.headroom_bytes

        deficit_bytes = self.deficit_bytes

        host_bytes_per_node = self.host_bytes_per_node

        nvme_bytes_per_node = self.nvme_bytes_per_node

        checkpoint_bytes: dict[str, Any] | None
        if isinstance(self.checkpoint_bytes, CheckpointAnswer):
            checkpoint_bytes = self.checkpoint_bytes.to_dict()
        else:
            checkpoint_bytes = self.checkpoint_bytes

        serving: dict[str, Any] | None
        if isinstance(self.serving, ServingAnswer):
            serving = self.serving.to_dict()
        else:
            serving = self.serving

        rollout: dict[str, Any] | None
        if isinstance(self.rollout, ServingAnswer):
            rollout = self.rollout.to_dict()
        else:
            rollout = self.rollout

        throughput: dict[str, Any] | None
        if isinstance(self.throughput, ThroughputAnswer):
            throughput = self.throughput.to_dict()
        else:
            throughput = self.throughput

        rules_of_thumb = []
        for rules_of_thumb_item_data in self.rules_of_thumb:
            rules_of_thumb_item = rules_of_thumb_item_data.to_dict()
            rules_of_thumb.append(rules_of_thumb_item)

        remedies = []
        for remedies_item_data in self.remedies:
            remedies_item = remedies_item_data.to_dict()
            remedies.append(remedies_item)

        remedy_search: dict[str, Any] | None
        if isinstance(self.remedy_search, RemedySearchAnswer):
            remedy_search = self.remedy_search.to_dict()
        else:
            remedy_search = self.remedy_search

        inputs = []
        for inputs_item_data in self.inputs:
            inputs_item = inputs_item_data.to_dict()
            inputs.append(inputs_item)

        assumptions = self.assumptions

        warnings = self.warnings

        calibration: None | str
        calibration = self.calibration

        calibration_level = self.calibration_level

        calibration_measurements = self.calibration_measurements

        cluster: dict[str, Any] | Unset = UNSET
        if not isinstance(self.cluster, Unset):
            cluster = self.cluster.to_dict()

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "verdict": verdict,
                "basis": basis,
                "bases": bases,
                "replayed": replayed,
                "num_gpus": num_gpus,
                "per_gpu": per_gpu,
                "capacity_bytes": capacity_bytes,
                "usable_bytes": usable_bytes,
                "headroom_bytes": headroom_bytes,
                "deficit_bytes": deficit_bytes,
                "host_bytes_per_node": host_bytes_per_node,
                "nvme_bytes_per_node": nvme_bytes_per_node,
                "checkpoint_bytes": checkpoint_bytes,
                "serving": serving,
                "rollout": rollout,
                "throughput": throughput,
                "rules_of_thumb": rules_of_thumb,
                "remedies": remedies,
                "remedy_search": remedy_search,
                "inputs": inputs,
                "assumptions": assumptions,
                "warnings": warnings,
                "calibration": calibration,
                "calibration_level": calibration_level,
                "calibration_measurements": calibration_measurements,
            }
        )
        if cluster is not UNSET:
            field_dict["cluster"] = cluster

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.bases_answer import BasesAnswer  # noqa: PLC0415
        from ..models.checkpoint_answer import CheckpointAnswer  # noqa: PLC0415
        from ..models.cluster_basis_answer import ClusterBasisAnswer  # noqa: PLC0415
        from ..models.input_tokens_answer import InputTokensAnswer  # noqa: PLC0415
        from ..models.per_gpu_answer import PerGpuAnswer  # noqa: PLC0415
        from ..models.remedy_answer import RemedyAnswer  # noqa: PLC0415
        from ..models.remedy_search_answer import RemedySearchAnswer  # noqa: PLC0415
        from ..models.rule_answer import RuleAnswer  # noqa: PLC0415
        from ..models.serving_answer import ServingAnswer  # noqa: PLC0415
        from ..models.throughput_answer import ThroughputAnswer  # noqa: PLC0415

        d = dict(src_dict)
        verdict = d.pop("verdict")

        basis = d.pop("basis")

        bases = BasesAnswer.from_dict(d.pop("bases"))

        def _parse_replayed(data: object) -> FitAnswerReplayedType0 | None:
            if data is None:
                return data
            try:
                if not isinstance(data, str):
                    raise TypeError()
                replayed_type_0 = check_fit_answer_replayed_type_0(data)

                return replayed_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(FitAnswerReplayedType0 | None, data)

        replayed = _parse_replayed(d.pop("replayed"))

        num_gpus = d.pop("num_gpus")

        per_gpu = PerGpuAnswer.from_dict(d.pop("per_gpu"))

        capacity_bytes = d.pop("capacity_bytes")

        usable_bytes = d.pop("usable_bytes")

        headroom_bytes = d.pop("headroom_bytes")

        deficit_bytes = d.pop("deficit_bytes")

        host_bytes_per_node = d.pop("host_bytes_per_node")

        nvme_bytes_per_node = d.pop("nvme_bytes_per_node")

        def _parse_checkpoint_bytes(data: object) -> CheckpointAnswer | None:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                checkpoint_bytes_type_0 = CheckpointAnswer.from_dict(data)

                return checkpoint_bytes_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(CheckpointAnswer | None, data)

        checkpoint_bytes = _parse_checkpoint_bytes(d.pop("checkpoint_bytes"))

        def _parse_serving(data: object) -> None | ServingAnswer:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                serving_type_0 = ServingAnswer.from_dict(data)

                return serving_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | ServingAnswer, data)

        serving = _parse_serving(d.pop("serving"))

        def _parse_rollout(data: object) -> None | ServingAnswer:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                rollout_type_0 = ServingAnswer.from_dict(data)

                return rollout_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | ServingAnswer, data)

        rollout = _parse_rollout(d.pop("rollout"))

        def _parse_throughput(data: object) -> None | ThroughputAnswer:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                throughput_type_0 = ThroughputAnswer.from_dict(data)

                return throughput_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | ThroughputAnswer, data)

        throughput = _parse_throughput(d.pop("throughput"))

        rules_of_thumb = []
        _rules_of_thumb = d.pop("rules_of_thumb")
        for rules_of_thumb_item_data in _rules_of_thumb:
            rules_of_thumb_item = RuleAnswer.from_dict(rules_of_thumb_item_data)

            rules_of_thumb.append(rules_of_thumb_item)

        remedies = []
        _remedies = d.pop("remedies")
        for remedies_item_data in _remedies:
            remedies_item = RemedyAnswer.from_dict(remedies_item_data)

            remedies.append(remedies_item)

        def _parse_remedy_search(data: object) -> None | RemedySearchAnswer:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                remedy_search_type_0 = RemedySearchAnswer.from_dict(data)

                return remedy_search_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | RemedySearchAnswer, data)

        remedy_search = _parse_remedy_search(d.pop("remedy_search"))

        inputs = []
        _inputs = d.pop("inputs")
        for inputs_item_data in _inputs:
            inputs_item = InputTokensAnswer.from_dict(inputs_item_data)

            inputs.append(inputs_item)

        assumptions = cast(list[str], d.pop("assumptions"))

        warnings = cast(list[str], d.pop("warnings"))

        def _parse_calibration(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        calibration = _parse_calibration(d.pop("calibration"))

        calibration_level = d.pop("calibration_level")

        calibration_measurements = d.pop("calibration_measurements")

        _cluster = d.pop("cluster", UNSET)
        cluster: ClusterBasisAnswer | Unset
        if isinstance(_cluster, Unset):
            cluster = UNSET
        else:
            cluster = ClusterBasisAnswer.from_dict(_cluster)

        fit_answer = cls(
            verdict=verdict,
            basis=basis,
            bases=bases,
            replayed=replayed,
            num_gpus=num_gpus,
            per_gpu=per_gpu,
            capacity_bytes=capacity_bytes,
            usable_bytes=usable_bytes,
            headroom_bytes=headroom_bytes,
            deficit_bytes=deficit_bytes,
            host_bytes_per_node=host_bytes_per_node,
            nvme_bytes_per_node=nvme_bytes_per_node,
            checkpoint_bytes=checkpoint_bytes,
            serving=serving,
            rollout=rollout,
            throughput=throughput,
            rules_of_thumb=rules_of_thumb,
            remedies=remedies,
            remedy_search=remedy_search,
            inputs=inputs,
            assumptions=assumptions,
            warnings=warnings,
            calibration=calibration,
            calibration_level=calibration_level,
            calibration_measurements=calibration_measurements,
            cluster=cluster,
        )

        fit_answer.additional_properties = d
        return fit_answer

    @property
    def additional_keys(self) -> list[str]:
        return list(self.additional_properties.keys())

    def __getitem__(self, key: str) -> Any:
        return self.additional_properties[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.additional_properties[key] = value

    def __delitem__(self, key: str) -> None:
        del self.additional_properties[key]

    def __contains__(self, key: str) -> bool:
        return key in self.additional_properties
