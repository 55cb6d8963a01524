from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.measurement_answer_source import MeasurementAnswerSource, check_measurement_answer_source
from ..models.probe_device import ProbeDevice, check_probe_device
from ..models.status import Status, check_status
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.artifact_answer import ArtifactAnswer
    from ..models.measurement_answer_environment_type_0 import MeasurementAnswerEnvironmentType0
    from ..models.measurement_answer_instants_item import MeasurementAnswerInstantsItem
    from ..models.measurement_answer_peaks_type_0 import MeasurementAnswerPeaksType0
    from ..models.measurement_answer_prediction_type_0 import MeasurementAnswerPredictionType0
    from ..models.measurement_answer_probes_item import MeasurementAnswerProbesItem
    from ..models.measurement_answer_problem_type_0 import MeasurementAnswerProblemType0
    from ..models.measurement_answer_question_type_0 import MeasurementAnswerQuestionType0
    from ..models.measurement_answer_readings_item import MeasurementAnswerReadingsItem
    from ..models.measurement_answer_request import MeasurementAnswerRequest
    from ..models.measurement_answer_step_time_s_type_0 import MeasurementAnswerStepTimeSType0


T = TypeVar("T", bound="MeasurementAnswer")


@_attrs_define
class MeasurementAnswer:
    """One measurement; what was found is null until it has succeeded.

    Attributes:
        id (str): Id of the measurement.
        status (Status): State of a job.
        attempt (int): Number of the try that runs or ran, 0 while it waits for the first.
        device (ProbeDevice): Device of a probe: a CPU, fake tensors, or a GPU.
        model (None | str): Name of the model; null when it came inline.
        source (MeasurementAnswerSource): Who measured: a worker, whoever wrote the file; or a model's recording.
        family (None | str): Family of the model; null where it is not known.
        task (None | str): `train` or `serve`; null where an import does not say.
        gpu (None | str): The GPU that the answer is wanted for; null where none was named.
        progress (float): 0 to 1.
        phase (str): What happens now, in words.
        created_by (None | str): Name of the key that asked for it, which may cancel and withdraw it; null of a model's
            recording, and where it is older than owners.
        created_at (str): When it was asked for, RFC 3339, UTC.
        started_at (None | str): When its last try began, RFC 3339, UTC; null while it waits.
        finished_at (None | str): When it ended, RFC 3339, UTC; null until then.
        worker (None | str): Name of the worker that runs or ran it; null while it waits.
        cancel_requested (bool): Whether somebody withdrew it while it ran.
        request (MeasurementAnswerRequest): What was asked, with everything resolved.
        question (MeasurementAnswerQuestionType0 | None): The same as a body of POST /v1/measurements, which asks it
            again; null if it is outdated.
        problem (MeasurementAnswerProblemType0 | None): Why it failed, as a problem document.
        warnings (list[str] | Unset): Of a queued one that no living worker can run: what it waits for, and what to
            start.
        environment (MeasurementAnswerEnvironmentType0 | None | Unset): Host, GPU, driver and releases that it ran on
            and with.
        peaks (MeasurementAnswerPeaksType0 | None | Unset): The highest readings, for the model that was asked.
        instants (list[MeasurementAnswerInstantsItem] | Unset): Readings by part of a step.
        readings (list[MeasurementAnswerReadingsItem] | Unset): Of an import: the numbers of the file.
        steady_bytes (int | None | Unset): Bytes that are allocated between steps.
        extrapolated (bool | None | Unset): Whether peaks and instants come from slices, see `probes`.
        transferable (bool | None | Unset): Whether the kernels were those that CUDA would choose.
        step_time_s (MeasurementAnswerStepTimeSType0 | None | Unset): Seconds of a step: the median and others of those
            that were timed; null where none was.
        probes (list[MeasurementAnswerProbesItem] | Unset): What was really run.
        prediction (MeasurementAnswerPredictionType0 | None | Unset): What the estimator had said; `error` is predicted
            / measured - 1, `low` to `high` the 0.95 interval, `instants` what it said of each part of a step.
        calibration (None | str | Unset): What was learnt from it.
        notes (list[str] | Unset): What the numbers do not hold for.
        artifacts (list[ArtifactAnswer] | Unset): Files that were asked for and are still there.
    """

    id: str
    status: Status
    attempt: int
    device: ProbeDevice
    model: None | str
    source: MeasurementAnswerSource
    family: None | str
    task: None | str
    gpu: None | str
    progress: float
    phase: str
    created_by: None | str
    created_at: str
    started_at: None | str
    finished_at: None | str
    worker: None | str
    cancel_requested: bool
    request: MeasurementAnswerRequest
    question: MeasurementAnswerQuestionType0 | None
    problem: MeasurementAnswerProblemType0 | None
    warnings: list[str] | Unset = UNSET
    environment: MeasurementAnswerEnvironmentType0 | None | Unset = UNSET
    peaks: MeasurementAnswerPeaksType0 | None | Unset = UNSET
    instants: list[MeasurementAnswerInstantsItem] | Unset = UNSET
    readings: list[MeasurementAnswerReadingsItem] | Unset = UNSET
    steady_bytes: int | None | Unset = UNSET
    extrapolated: bool | None | Unset = UNSET
    transferable: bool | None | Unset = UNSET
    step_time_s: MeasurementAnswerStepTimeSType0 | None | Unset = UNSET
    probes: list[MeasurementAnswerProbesItem] | Unset = UNSET
    prediction: MeasurementAnswerPredictionType0 | None | Unset = UNSET
    calibration: None | str | Unset = UNSET
    notes: list[str] | Unset = UNSET
    artifacts: list[ArtifactAnswer] | Unset = UNSET
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        from ..models.measurement_answer_environment_type_0 import MeasurementAnswerEnvironmentType0  # noqa: PLC0415
        from ..models.measurement_answer_peaks_type_0 import MeasurementAnswerPeaksType0  # noqa: PLC0415
        from ..models.measurement_answer_prediction_type_0 import MeasurementAnswerPredictionType0  # noqa: PLC0415
        from ..models.measurement_answer_problem_type_0 import MeasurementAnswerProblemType0  # noqa: PLC0415
        from ..models.measurement_answer_question_type_0 import MeasurementAnswerQuestionType0  # noqa: PLC0415
        from ..models.measurement_answer_step_time_s_type_0 import MeasurementAnswerStepTimeSType0  # noqa: PLC0415

        id = self.id

        status: str = self.status

        attempt = self.attempt

        device: str = self.device

        model: None | str
        model = self.model

        source: str = self.source

        family: None | str
        family = self.family

        task: None | str
        task = self.task

        gpu: None | str
        gpu = self.gpu

        progress = self.progress

        phase = self.phase

        created_by: None | str
        created_by = self.created_by

        created_at = self.created_at

        started_at: None | str
        started_at = self.started_at

        finished_at: None | str
        finished_at = self.finished_at

        worker: None | str
        worker = self.worker

        cancel_requested = self.cancel_requested

        request = self.request.to_dict()

        question: dict[str, Any] | None
        if isinstance(self.question, MeasurementAnswerQuestionType0):
            question = self.question.to_dict()
        else:
            question = self.question

        problem: dict[str, Any] | None
        if isinstance(self.problem, MeasurementAnswerProblemType0):
            problem = self.problem.to_dict()
        else:
            problem = self.problem

        warnings: list[str] | Unset = UNSET
        if not isinstance(self.warnings, Unset):
            warnings = self.warnings

        environment: dict[str, Any] | None | Unset
        if isinstance(self.environment, Unset):
            environment = UNSET
        elif isinstance(self.environment, MeasurementAnswerEnvironmentType0):
            environment = self.environment.to_dict()
        else:
            environment = self.environment

        peaks: dict[str, Any] | None | Unset
        if isinstance(self.peaks, Unset):
            peaks = UNSET
        elif isinstance(self.peaks, MeasurementAnswerPeaksType0):
            peaks = self.peaks.to_dict()
        else:
            peaks = self.peaks

        instants: list[dict[str, Any]] | Unset = UNSET
        if not isinstance(self.instants, Unset):
            instants = []
            for instants_item_data in self.instants:
                instants_item = instants_item_data.to_dict()
                instants.append(instants_item)

        readings: list[dict[str, Any]] | Unset = UNSET
        if not isinstance(self.readings, Unset):
            readings = []
            for readings_item_data in self.readings:
                readings_item = readings_item_data.to_dict()
                readings.append(readings_item)

        steady_bytes: int | None | Unset
        if isinstance(self.steady_bytes, Unset):
            steady_bytes = UNSET
        else:
            steady_bytes = self.steady_bytes

        extrapolated: bool | None | Unset
        if isinstance(self.extrapolated, Unset):
            extrapolated = UNSET
        else:
            extrapolated = self.extrapolated

        transferable: bool | None | Unset
        if isinstance(self.transferable, Unset):
            transferable = UNSET
        else:
            transferable = self.transferable

        step_time_s: dict[str, Any] | None | Unset
        if isinstance(self.step_time_s, Unset):
            step_time_s = UNSET
        elif isinstance(self.step_time_s, MeasurementAnswerStepTimeSType0):
            step_time_s = self.step_time_s.to_dict()
        else:
            step_time_s = self.step_time_s

        probes: list[dict[str, Any]] | Unset = UNSET
        if not isinstance(self.probes, Unset):
            probes = []
            for probes_item_data in self.probes:
                probes_item = probes_item_data.to_dict()
                probes.append(probes_item)

        prediction: dict[str, Any] | None | Unset
        if isinstance(self.prediction, Unset):
            prediction = UNSET
        elif isinstance(self.prediction, MeasurementAnswerPredictionType0):
            prediction = self.prediction.to_dict()
        else:
            prediction = self.prediction

        calibration: None | str | Unset
        if isinstance(self.calibration, Unset):
            calibration = UNSET
        else:
            calibration = self.calibration

        notes: list[str] | Unset = UNSET
        if not isinstance(self.notes, Unset):
            notes = self.notes

        artifacts: list[dict[str, Any]] | Unset = UNSET
        if not isinstance(self.artifacts, Unset):
            artifacts = []
            for artifacts_item_data in self.artifacts:
                artifacts_item = artifacts_item_data.to_dict()
                artifacts.append(artifacts_item)

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "id": id,
                "status": status,
                "attempt": attempt,
                "device": device,
                "model": model,
                "source": source,
                "family": family,
                "task": task,
                "gpu": gpu,
                "progress": progress,
                "phase": phase,
                "created_by": created_by,
                "created_at": created_at,
                "started_at": started_at,
                "finished_at": finished_at,
                "worker": worker,
                "cancel_requested": cancel_requested,
                "request": request,
                "question": question,
                "problem": problem,
            }
        )
        if warnings is not UNSET:
            field_dict["warnings"] = warnings
        if environment is not UNSET:
            field_dict["environment"] = environment
        if peaks is not UNSET:
            field_dict["peaks"] = peaks
        if instants is not UNSET:
            field_dict["instants"] = instants
        if readings is not UNSET:
            field_dict["readings"] = readings
        if steady_bytes is not UNSET:
            field_dict["steady_bytes"] = steady_bytes
        if extrapolated is not UNSET:
            field_dict["extrapolated"] = extrapolated
        if transferable is not UNSET:
            field_dict["transferable"] = transferable
        if step_time_s is not UNSET:
            field_dict["step_time_s"] = step_time_s
        if probes is not UNSET:
            field_dict["probes"] = probes
        if prediction is not UNSET:
            field_dict["prediction"] = prediction
        if calibration is not UNSET:
            field_dict["calibration"] = calibration
        if notes is not UNSET:
            field_dict["notes"] = notes
        if artifacts is not UNSET:
            field_dict["artifacts"] = artifacts

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.artifact_answer import ArtifactAnswer  # noqa: PLC0415
        from ..models.measurement_answer_environment_type_0 import MeasurementAnswerEnvironmentType0  # noqa: PLC0415
        from ..models.measurement_answer_instants_item import MeasurementAnswerInstantsItem  # noqa: PLC0415
        from ..models.measurement_answer_peaks_type_0 import MeasurementAnswerPeaksType0  # noqa: PLC0415
        from ..models.measurement_answer_prediction_type_0 import MeasurementAnswerPredictionType0  # noqa: PLC0415
        from ..models.measurement_answer_probes_item import MeasurementAnswerProbesItem  # noqa: PLC0415
        from ..models.measurement_answer_problem_type_0 import MeasurementAnswerProblemType0  # noqa: PLC0415
        from ..models.measurement_answer_question_type_0 import MeasurementAnswerQuestionType0  # noqa: PLC0415
        from ..models.measurement_answer_readings_item import MeasurementAnswerReadingsItem  # noqa: PLC0415
        from ..models.measurement_answer_request import MeasurementAnswerRequest  # noqa: PLC0415
        from ..models.measurement_answer_step_time_s_type_0 import MeasurementAnswerStepTimeSType0  # noqa: PLC0415

        d = dict(src_dict)
        id = d.pop("id")

        status = check_status(d.pop("status"))

        attempt = d.pop("attempt")

        device = check_probe_device(d.pop("device"))

        def _parse_model(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        model = _parse_model(d.pop("model"))

        source = check_measurement_answer_source(d.pop("source"))

        def _parse_family(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        family = _parse_family(d.pop("family"))

        def _parse_task(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        task = _parse_task(d.pop("task"))

        def _parse_gpu(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        gpu = _parse_gpu(d.pop("gpu"))

        progress = d.pop("progress")

        phase = d.pop("phase")

        def _parse_created_by(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        created_by = _parse_created_by(d.pop("created_by"))

        created_at = d.pop("created_at")

        def _parse_started_at(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        started_at = _parse_started_at(d.pop("started_at"))

        def _parse_finished_at(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        finished_at = _parse_finished_at(d.pop("finished_at"))

        def _parse_worker(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        worker = _parse_worker(d.pop("worker"))

        cancel_requested = d.pop("cancel_requested")

        request = MeasurementAnswerRequest.from_dict(d.pop("request"))

        def _parse_question(data: object) -> MeasurementAnswerQuestionType0 | None:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                question_type_0 = MeasurementAnswerQuestionType0.from_dict(data)

                return question_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(MeasurementAnswerQuestionType0 | None, data)

        question = _parse_question(d.pop("question"))

        def _parse_problem(data: object) -> MeasurementAnswerProblemType0 | None:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                problem_type_0 = MeasurementAnswerProblemType0.from_dict(data)

                return problem_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(MeasurementAnswerProblemType0 | None, data)

        problem = _parse_problem(d.pop("problem"))

        warnings = cast(list[str], d.pop("warnings", UNSET))

        def _parse_environment(data: object) -> MeasurementAnswerEnvironmentType0 | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                environment_type_0 = MeasurementAnswerEnvironmentType0.from_dict(data)

                return environment_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(MeasurementAnswerEnvironmentType0 | None | Unset, data)

        environment = _parse_environment(d.pop("environment", UNSET))

        def _parse_peaks(data: object) -> MeasurementAnswerPeaksType0 | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                peaks_type_0 = MeasurementAnswerPeaksType0.from_dict(data)

                return peaks_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(MeasurementAnswerPeaksType0 | None | Unset, data)

        peaks = _parse_peaks(d.pop("peaks", UNSET))

        _instants = d.pop("instants", UNSET)
        instants: list[MeasurementAnswerInstantsItem] | Unset = UNSET
        if _instants is not UNSET:
            instants = []
            for instants_item_data in _instants:
                instants_item = MeasurementAnswerInstantsItem.from_dict(instants_item_data)

                instants.append(instants_item)

        _readings = d.pop("readings", UNSET)
        readings: list[MeasurementAnswerReadingsItem] | Unset = UNSET
        if _readings is not UNSET:
            readings = []
            for readings_item_data in _readings:
                readings_item = MeasurementAnswerReadingsItem.from_dict(readings_item_data)

                readings.append(readings_item)

        def _parse_steady_bytes(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        steady_bytes = _parse_steady_bytes(d.pop("steady_bytes", UNSET))

        def _parse_extrapolated(data: object) -> bool | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(bool | None | Unset, data)

        extrapolated = _parse_extrapolated(d.pop("extrapolated", UNSET))

        def _parse_transferable(data: object) -> bool | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(bool | None | Unset, data)

        transferable = _parse_transferable(d.pop("transferable", UNSET))

        def _parse_step_time_s(data: object) -> MeasurementAnswerStepTimeSType0 | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                step_time_s_type_0 = MeasurementAnswerStepTimeSType0.from_dict(data)

                return step_time_s_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(MeasurementAnswerStepTimeSType0 | None | Unset, data)

        step_time_s = _parse_step_time_s(d.pop("step_time_s", UNSET))

        _probes = d.pop("probes", UNSET)
        probes: list[MeasurementAnswerProbesItem] | Unset = UNSET
        if _probes is not UNSET:
            probes = []
            for probes_item_data in _probes:
                probes_item = MeasurementAnswerProbesItem.from_dict(probes_item_data)

                probes.append(probes_item)

        def _parse_prediction(data: object) -> MeasurementAnswerPredictionType0 | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                prediction_type_0 = MeasurementAnswerPredictionType0.from_dict(data)

                return prediction_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(MeasurementAnswerPredictionType0 | None | Unset, data)

        prediction = _parse_prediction(d.pop("prediction", UNSET))

        def _parse_calibration(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        calibration = _parse_calibration(d.pop("calibration", UNSET))

        notes = cast(list[str], d.pop("notes", UNSET))

        _artifacts = d.pop("artifacts", UNSET)
        artifacts: list[ArtifactAnswer] | Unset = UNSET
        if _artifacts is not UNSET:
            artifacts = []
            for artifacts_item_data in _artifacts:
                artifacts_item = ArtifactAnswer.from_dict(artifacts_item_data)

                artifacts.append(artifacts_item)

        measurement_answer = cls(
            id=id,
            status=status,
            attempt=attempt,
            device=device,
            model=model,
            source=source,
            family=family,
            task=task,
            gpu=gpu,
            progress=progress,
            phase=phase,
            created_by=created_by,
            created_at=created_at,
            started_at=started_at,
            finished_at=finished_at,
            worker=worker,
            cancel_requested=cancel_requested,
            request=request,
            question=question,
            problem=problem,
            warnings=warnings,
            environment=environment,
            peaks=peaks,
            instants=instants,
            readings=readings,
            steady_bytes=steady_bytes,
            extrapolated=extrapolated,
            transferable=transferable,
            step_time_s=step_time_s,
            probes=probes,
            prediction=prediction,
            calibration=calibration,
            notes=notes,
            artifacts=artifacts,
        )

        measurement_answer.additional_properties = d
        return measurement_answer

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
