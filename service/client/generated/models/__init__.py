"""Contains all the data models used in inputs/outputs"""

from .accuracy_answer import AccuracyAnswer
from .action import Action
from .admission_answer import AdmissionAnswer
from .admission_request import AdmissionRequest
from .admission_request_object_type_0 import AdmissionRequestObjectType0
from .admission_response import AdmissionResponse
from .admission_response_audit_annotations import AdmissionResponseAuditAnnotations
from .admission_response_patch_type_type_0 import AdmissionResponsePatchTypeType0
from .admission_review import AdmissionReview
from .admission_review_api_version import AdmissionReviewApiVersion
from .admission_review_kind import AdmissionReviewKind
from .admission_status import AdmissionStatus
from .admission_user import AdmissionUser
from .agreement import Agreement
from .allocation_answer import AllocationAnswer
from .allocation_request import AllocationRequest
from .allocator import Allocator
from .alternative_answer import AlternativeAnswer
from .artifact_answer import ArtifactAnswer
from .artifact_name import ArtifactName
from .ask_how_many_as import AskHowManyAs
from .attention import Attention
from .balance_answer import BalanceAnswer
from .bases_answer import BasesAnswer
from .basis import Basis
from .batch_answer import BatchAnswer
from .batch_answer_items_item_type_1 import BatchAnswerItemsItemType1
from .batch_detail import BatchDetail
from .batch_request import BatchRequest
from .beyond_answer import BeyondAnswer
from .bound import Bound
from .cache import Cache
from .cache_type import CacheType
from .calibration_answer import CalibrationAnswer
from .calibration_answer_correction import CalibrationAnswerCorrection
from .calibration_answer_scope import CalibrationAnswerScope
from .calibration_page import CalibrationPage
from .calibration_pool_answer import CalibrationPoolAnswer
from .calibration_pool_answer_shares import CalibrationPoolAnswerShares
from .candidate_answer import CandidateAnswer
from .candidate_answer_layout import CandidateAnswerLayout
from .candidate_answer_requests_type_0 import CandidateAnswerRequestsType0
from .candidate_answer_workload import CandidateAnswerWorkload
from .cause_answer import CauseAnswer
from .cause_certainty import CauseCertainty
from .cause_name import CauseName
from .ceiling_answer import CeilingAnswer
from .ceiling_answer_layout_type_0 import CeilingAnswerLayoutType0
from .ceiling_answer_workload_type_0 import CeilingAnswerWorkloadType0
from .ceiling_request import CeilingRequest
from .change_answer import ChangeAnswer
from .change_kind import ChangeKind
from .change_page import ChangePage
from .checkpoint_answer import CheckpointAnswer
from .checkpointing import Checkpointing
from .claim_state import ClaimState
from .class_answer import ClassAnswer
from .client import Client
from .clip_request import ClipRequest
from .cluster_answer import ClusterAnswer
from .cluster_basis_answer import ClusterBasisAnswer
from .cluster_create import ClusterCreate
from .cluster_import_answer import ClusterImportAnswer
from .cluster_import_request import ClusterImportRequest
from .cluster_import_request_also_item_type_1 import ClusterImportRequestAlsoItemType1
from .cluster_import_request_also_item_type_2_item import ClusterImportRequestAlsoItemType2Item
from .cluster_import_request_content_type_1 import ClusterImportRequestContentType1
from .cluster_import_request_content_type_2_item import ClusterImportRequestContentType2Item
from .cluster_import_request_gpus import ClusterImportRequestGpus
from .cluster_page import ClusterPage
from .cluster_replace import ClusterReplace
from .comparison_answer import ComparisonAnswer
from .component_answer import ComponentAnswer
from .constraints import Constraints
from .constraints_allow_item import ConstraintsAllowItem
from .constraints_frameworks_item import ConstraintsFrameworksItem
from .context_method import ContextMethod
from .critic_model import CriticModel
from .critic_model_architecture import CriticModelArchitecture
from .critic_model_hf_config import CriticModelHfConfig
from .critic_request import CriticRequest
from .cross_entropy_fusion import CrossEntropyFusion
from .d_type import DType
from .decision_answer import DecisionAnswer
from .decision_page import DecisionPage
from .draft_head import DraftHead
from .draft_model import DraftModel
from .draft_model_architecture import DraftModelArchitecture
from .draft_model_gguf import DraftModelGguf
from .draft_model_hf_config import DraftModelHfConfig
from .drift_answer import DriftAnswer
from .dry_run_answer import DryRunAnswer
from .dry_run_answer_host import DryRunAnswerHost
from .dry_run_answer_problem_type_0 import DryRunAnswerProblemType0
from .dstack_answer import DstackAnswer
from .dstack_answer_spec import DstackAnswerSpec
from .dstack_policy import DstackPolicy
from .dstack_request import DstackRequest
from .dstack_request_spec import DstackRequestSpec
from .engine import Engine
from .error_answer import ErrorAnswer
from .evaluation_request import EvaluationRequest
from .event_answer import EventAnswer
from .event_answer_event import EventAnswerEvent
from .explain_answer import ExplainAnswer
from .explain_request import ExplainRequest
from .extender_args import ExtenderArgs
from .extender_args_pod import ExtenderArgsPod
from .extender_filter_result import ExtenderFilterResult
from .extender_filter_result_failed_and_unresolvable_nodes import ExtenderFilterResultFailedAndUnresolvableNodes
from .extender_filter_result_failed_nodes import ExtenderFilterResultFailedNodes
from .extender_filter_result_nodes_type_0 import ExtenderFilterResultNodesType0
from .failed_memory import FailedMemory
from .failure_change_answer import FailureChangeAnswer
from .failure_quantity import FailureQuantity
from .failure_speaker import FailureSpeaker
from .family_answer import FamilyAnswer
from .field_change_answer import FieldChangeAnswer
from .field_data_answer import FieldDataAnswer
from .field_data_decision import FieldDataDecision
from .field_error import FieldError
from .fit_answer import FitAnswer
from .fit_answer_replayed_type_0 import FitAnswerReplayedType0
from .fit_part import FitPart
from .fit_request import FitRequest
from .format_ import Format
from .format_answer import FormatAnswer
from .format_options_request import FormatOptionsRequest
from .format_page import FormatPage
from .framework import Framework
from .generate_request import GenerateRequest
from .generate_request_dtype import GenerateRequestDtype
from .generate_request_output_type import GenerateRequestOutputType
from .generate_request_task import GenerateRequestTask
from .generate_request_text_encoder_dtype import GenerateRequestTextEncoderDtype
from .generate_request_vae_dtype import GenerateRequestVaeDtype
from .gguf_answer import GgufAnswer
from .gguf_answer_by_kind import GgufAnswerByKind
from .gguf_answer_by_type import GgufAnswerByType
from .gguf_tensor_answer import GgufTensorAnswer
from .gpu_answer import GpuAnswer
from .gpu_answer_aliases import GpuAnswerAliases
from .gpu_answer_peak_flops import GpuAnswerPeakFlops
from .gpu_answer_sources import GpuAnswerSources
from .gpu_by_memory import GpuByMemory
from .gpu_page import GpuPage
from .growth_answer import GrowthAnswer
from .head import Head
from .health_answer import HealthAnswer
from .health_answer_status import HealthAnswerStatus
from .held_answer import HeldAnswer
from .hook_question_answer import HookQuestionAnswer
from .hook_question_answer_question import HookQuestionAnswerQuestion
from .hook_verdict import HookVerdict
from .host_priority import HostPriority
from .how_many_answer import HowManyAnswer
from .how_many_as import HowManyAs
from .how_many_format import HowManyFormat
from .how_many_lora_target_modules import HowManyLoraTargetModules
from .how_many_lora_variant import HowManyLoraVariant
from .how_many_precision import HowManyPrecision
from .how_many_request import HowManyRequest
from .how_many_request_format_item import HowManyRequestFormatItem
from .hub_answer import HubAnswer
from .import_answer import ImportAnswer
from .import_environment import ImportEnvironment
from .import_item import ImportItem
from .import_item_environment import ImportItemEnvironment
from .import_item_peaks import ImportItemPeaks
from .import_item_prediction_type_0 import ImportItemPredictionType0
from .import_job import ImportJob
from .import_match import ImportMatch
from .import_omission import ImportOmission
from .import_pod import ImportPod
from .import_request import ImportRequest
from .import_scope import ImportScope
from .inline_model import InlineModel
from .inline_model_architecture import InlineModelArchitecture
from .inline_model_gguf import InlineModelGguf
from .inline_model_hf_config import InlineModelHfConfig
from .inline_model_recording import InlineModelRecording
from .inline_model_safetensors_header import InlineModelSafetensorsHeader
from .inline_model_safetensors_index import InlineModelSafetensorsIndex
from .inline_pipeline import InlinePipeline
from .inline_pipeline_configs import InlinePipelineConfigs
from .inline_pipeline_configs_additional_property import InlinePipelineConfigsAdditionalProperty
from .inline_pipeline_model_index import InlinePipelineModelIndex
from .inline_pipeline_recording import InlinePipelineRecording
from .input_tokens_answer import InputTokensAnswer
from .inputs_request import InputsRequest
from .inputs_request_processor import InputsRequestProcessor
from .instant_answer import InstantAnswer
from .instant_answer_parts import InstantAnswerParts
from .intervals_answer import IntervalsAnswer
from .inventory_change_answer import InventoryChangeAnswer
from .inventory_format import InventoryFormat
from .inventory_sums import InventorySums
from .job_enqueueable_answer import JobEnqueueableAnswer
from .job_enqueueable_request import JobEnqueueableRequest
from .kernels import Kernels
from .key_answer import KeyAnswer
from .key_page import KeyPage
from .key_request import KeyRequest
from .kueue_answer import KueueAnswer
from .kueue_answer_operations_item import KueueAnswerOperationsItem
from .kueue_request import KueueRequest
from .kueue_request_objects_item import KueueRequestObjectsItem
from .launch_file_request import LaunchFileRequest
from .launch_import_answer import LaunchImportAnswer
from .launch_import_answer_question import LaunchImportAnswerQuestion
from .launch_import_answer_versions import LaunchImportAnswerVersions
from .launch_import_request import LaunchImportRequest
from .launch_import_request_arguments import LaunchImportRequestArguments
from .launch_import_request_workload import LaunchImportRequestWorkload
from .launcher import Launcher
from .layout_request import LayoutRequest
from .left_out_answer import LeftOutAnswer
from .list_hook_decisions_format import ListHookDecisionsFormat
from .list_hook_decisions_verdict import ListHookDecisionsVerdict
from .list_measurements_format import ListMeasurementsFormat
from .list_measurements_source import ListMeasurementsSource
from .list_measurements_task import ListMeasurementsTask
from .lora_kernel import LoraKernel
from .lora_request import LoraRequest
from .lora_request_target_modules_type_0 import LoraRequestTargetModulesType0
from .lora_request_variant import LoraRequestVariant
from .loss import Loss
from .maximized import Maximized
from .measurement_answer import MeasurementAnswer
from .measurement_answer_environment_type_0 import MeasurementAnswerEnvironmentType0
from .measurement_answer_instants_item import MeasurementAnswerInstantsItem
from .measurement_answer_peaks_type_0 import MeasurementAnswerPeaksType0
from .measurement_answer_prediction_type_0 import MeasurementAnswerPredictionType0
from .measurement_answer_probes_item import MeasurementAnswerProbesItem
from .measurement_answer_problem_type_0 import MeasurementAnswerProblemType0
from .measurement_answer_question_type_0 import MeasurementAnswerQuestionType0
from .measurement_answer_readings_item import MeasurementAnswerReadingsItem
from .measurement_answer_request import MeasurementAnswerRequest
from .measurement_answer_source import MeasurementAnswerSource
from .measurement_answer_step_time_s_type_0 import MeasurementAnswerStepTimeSType0
from .measurement_page import MeasurementPage
from .measurement_request import MeasurementRequest
from .measurement_row import MeasurementRow
from .measurement_sort import MeasurementSort
from .measurement_table import MeasurementTable
from .megatron_request import MegatronRequest
from .memory_answer import MemoryAnswer
from .method import Method
from .mig_answer import MigAnswer
from .mig_slices_answer import MigSlicesAnswer
from .mig_slices_request import MigSlicesRequest
from .mode import Mode
from .model_answer import ModelAnswer
from .model_answer_architecture import ModelAnswerArchitecture
from .model_answer_weight_bytes import ModelAnswerWeightBytes
from .model_create import ModelCreate
from .model_family_answer import ModelFamilyAnswer
from .model_family_page import ModelFamilyPage
from .model_item import ModelItem
from .model_page import ModelPage
from .model_replace import ModelReplace
from .model_source import ModelSource
from .model_source_architecture import ModelSourceArchitecture
from .model_source_gguf import ModelSourceGguf
from .model_source_hf_config import ModelSourceHfConfig
from .model_source_recording import ModelSourceRecording
from .model_source_safetensors_header import ModelSourceSafetensorsHeader
from .model_source_safetensors_index import ModelSourceSafetensorsIndex
from .never_answer import NeverAnswer
from .never_answer_status import NeverAnswerStatus
from .new_key_answer import NewKeyAnswer
from .next_answer import NextAnswer
from .node_answer import NodeAnswer
from .node_list import NodeList
from .node_list_items_item import NodeListItemsItem
from .node_request import NodeRequest
from .node_request_state import NodeRequestState
from .not_today_answer import NotTodayAnswer
from .not_today_answer_status import NotTodayAnswerStatus
from .objective import Objective
from .offload_request import OffloadRequest
from .offload_target import OffloadTarget
from .open_question_answer import OpenQuestionAnswer
from .optimizer_name import OptimizerName
from .parameters_answer import ParametersAnswer
from .parameters_answer_by_module import ParametersAnswerByModule
from .pareto_answer import ParetoAnswer
from .pareto_answer_layout import ParetoAnswerLayout
from .pareto_answer_workload import ParetoAnswerWorkload
from .peft_request import PeftRequest
from .per_gpu_answer import PerGpuAnswer
from .picture_request import PictureRequest
from .pipeline_answer import PipelineAnswer
from .pipeline_answer_releases import PipelineAnswerReleases
from .pipeline_component_answer import PipelineComponentAnswer
from .pipeline_component_answer_weight_bytes import PipelineComponentAnswerWeightBytes
from .pipeline_fit_request import PipelineFitRequest
from .pipeline_offload import PipelineOffload
from .pipeline_page import PipelinePage
from .pipeline_schedule import PipelineSchedule
from .place_answer import PlaceAnswer
from .placed_answer import PlacedAnswer
from .placed_answer_status import PlacedAnswerStatus
from .placement_request import PlacementRequest
from .placement_request_status import PlacementRequestStatus
from .plan_answer import PlanAnswer
from .plan_candidate import PlanCandidate
from .plan_candidate_layout import PlanCandidateLayout
from .plan_candidate_requests_type_0 import PlanCandidateRequestsType0
from .plan_candidate_workload import PlanCandidateWorkload
from .plan_request import PlanRequest
from .plan_request_format_item import PlanRequestFormatItem
from .plan_request_prices import PlanRequestPrices
from .planned_run_answer import PlannedRunAnswer
from .pool_answer import PoolAnswer
from .pool_page import PoolPage
from .pool_request import PoolRequest
from .precision_request import PrecisionRequest
from .predicate_answer import PredicateAnswer
from .predicate_request import PredicateRequest
from .prediction_answer import PredictionAnswer
from .prioritize_answer import PrioritizeAnswer
from .prioritize_answer_node_score import PrioritizeAnswerNodeScore
from .prioritize_request import PrioritizeRequest
from .priority import Priority
from .probe_device import ProbeDevice
from .problem import Problem
from .process_answer import ProcessAnswer
from .quantization import Quantization
from .read_accuracy_quantity import ReadAccuracyQuantity
from .read_key_answer import ReadKeyAnswer
from .read_number_answer import ReadNumberAnswer
from .reading_answer import ReadingAnswer
from .reading_answer_place import ReadingAnswerPlace
from .ready_answer import ReadyAnswer
from .recording_progress_answer import RecordingProgressAnswer
from .reference import Reference
from .refusal_answer import RefusalAnswer
from .rejected_answer import RejectedAnswer
from .remeasure_answer import RemeasureAnswer
from .remedy_answer import RemedyAnswer
from .remedy_answer_change import RemedyAnswerChange
from .remedy_search_answer import RemedySearchAnswer
from .render_fit_name import RenderFitName
from .rendering_answer import RenderingAnswer
from .rendering_answer_document_type_0 import RenderingAnswerDocumentType0
from .rendering_request import RenderingRequest
from .reservation_answer import ReservationAnswer
from .reservation_change_request import ReservationChangeRequest
from .reservation_page import ReservationPage
from .reservation_request import ReservationRequest
from .rollout_engine import RolloutEngine
from .rollout_request import RolloutRequest
from .rule_answer import RuleAnswer
from .sample_answer import SampleAnswer
from .sample_page import SamplePage
from .sampling import Sampling
from .scheduler_job_answer import SchedulerJobAnswer
from .scheduler_job_request import SchedulerJobRequest
from .scope import Scope
from .searched_answer import SearchedAnswer
from .searched_answer_pruned import SearchedAnswerPruned
from .seat_answer import SeatAnswer
from .seat_request import SeatRequest
from .selective_request import SelectiveRequest
from .sequence_packing import SequencePacking
from .serve_ceiling import ServeCeiling
from .serve_ceiling_task import ServeCeilingTask
from .serve_request import ServeRequest
from .serve_request_task import ServeRequestTask
from .serving_answer import ServingAnswer
from .sharding import Sharding
from .share_answer import ShareAnswer
from .share_request import ShareRequest
from .shipped_answer import ShippedAnswer
from .sky_pilot_answer import SkyPilotAnswer
from .sky_pilot_request import SkyPilotRequest
from .slurm_answer import SlurmAnswer
from .slurm_answer_options import SlurmAnswerOptions
from .slurm_submission import SlurmSubmission
from .slurm_submission_environment import SlurmSubmissionEnvironment
from .slurm_submission_options import SlurmSubmissionOptions
from .sound_request import SoundRequest
from .source_answer import SourceAnswer
from .source_list import SourceList
from .source_withdrawal import SourceWithdrawal
from .span_answer import SpanAnswer
from .speculative_request import SpeculativeRequest
from .stage_answer import StageAnswer
from .status import Status
from .tensor_answer import TensorAnswer
from .throughput_answer import ThroughputAnswer
from .token_dispatcher import TokenDispatcher
from .train_ceiling import TrainCeiling
from .train_ceiling_precision_type_0 import TrainCeilingPrecisionType0
from .train_ceiling_sequence_lengths_type_1 import TrainCeilingSequenceLengthsType1
from .train_ceiling_task import TrainCeilingTask
from .train_request import TrainRequest
from .train_request_precision_type_0 import TrainRequestPrecisionType0
from .train_request_sequence_lengths_type_1 import TrainRequestSequenceLengthsType1
from .train_request_task import TrainRequestTask
from .trainer import Trainer
from .training_answer import TrainingAnswer
from .transformer_impl import TransformerImpl
from .unknown_gpu_answer import UnknownGpuAnswer
from .version_answer import VersionAnswer
from .volcano_job import VolcanoJob
from .volcano_job_tasks_type_0 import VolcanoJobTasksType0
from .volcano_node import VolcanoNode
from .volcano_node_node_type_0 import VolcanoNodeNodeType0
from .volcano_task import VolcanoTask
from .volcano_task_pod_type_0 import VolcanoTaskPodType0
from .worker_answer import WorkerAnswer
from .worker_answer_devices_item import WorkerAnswerDevicesItem
from .worker_answer_observed_type_0 import WorkerAnswerObservedType0
from .worker_answer_versions import WorkerAnswerVersions
from .worker_page import WorkerPage
from .worst_rank_answer import WorstRankAnswer

__all__ = (
    "AccuracyAnswer",
    "Action",
    "AdmissionAnswer",
    "AdmissionRequest",
    "AdmissionRequestObjectType0",
    "AdmissionResponse",
    "AdmissionResponseAuditAnnotations",
    "AdmissionResponsePatchTypeType0",
    "AdmissionReview",
    "AdmissionReviewApiVersion",
    "AdmissionReviewKind",
    "AdmissionStatus",
    "AdmissionUser",
    "Agreement",
    "AllocationAnswer",
    "AllocationRequest",
    "Allocator",
    "AlternativeAnswer",
    "ArtifactAnswer",
    "ArtifactName",
    "AskHowManyAs",
    "Attention",
    "BalanceAnswer",
    "BasesAnswer",
    "Basis",
    "BatchAnswer",
    "BatchAnswerItemsItemType1",
    "BatchDetail",
    "BatchRequest",
    "BeyondAnswer",
    "Bound",
    "Cache",
    "CacheType",
    "CalibrationAnswer",
    "CalibrationAnswerCorrection",
    "CalibrationAnswerScope",
    "CalibrationPage",
    "CalibrationPoolAnswer",
    "CalibrationPoolAnswerShares",
    "CandidateAnswer",
    "CandidateAnswerLayout",
    "CandidateAnswerRequestsType0",
    "CandidateAnswerWorkload",
    "CauseAnswer",
    "CauseCertainty",
    "CauseName",
    "CeilingAnswer",
    "CeilingAnswerLayoutType0",
    "CeilingAnswerWorkloadType0",
    "CeilingRequest",
    "ChangeAnswer",
    "ChangeKind",
    "ChangePage",
    "CheckpointAnswer",
    "Checkpointing",
    "ClaimState",
    "ClassAnswer",
    "Client",
    "ClipRequest",
    "ClusterAnswer",
    "ClusterBasisAnswer",
    "ClusterCreate",
    "ClusterImportAnswer",
    "ClusterImportRequest",
    "ClusterImportRequestAlsoItemType1",
    "ClusterImportRequestAlsoItemType2Item",
    "ClusterImportRequestContentType1",
    "ClusterImportRequestContentType2Item",
    "ClusterImportRequestGpus",
    "ClusterPage",
    "ClusterReplace",
    "ComparisonAnswer",
    "ComponentAnswer",
    "Constraints",
    "ConstraintsAllowItem",
    "ConstraintsFrameworksItem",
    "ContextMethod",
    "CriticModel",
    "CriticModelArchitecture",
    "CriticModelHfConfig",
    "CriticRequest",
    "CrossEntropyFusion",
    "DecisionAnswer",
    "DecisionPage",
    "DraftHead",
    "DraftModel",
    "DraftModelArchitecture",
    "DraftModelGguf",
    "DraftModelHfConfig",
    "DriftAnswer",
    "DryRunAnswer",
    "DryRunAnswerHost",
    "DryRunAnswerProblemType0",
    "DstackAnswer",
    "DstackAnswerSpec",
    "DstackPolicy",
    "DstackRequest",
    "DstackRequestSpec",
    "DType",
    "Engine",
    "ErrorAnswer",
    "EvaluationRequest",
    "EventAnswer",
    "EventAnswerEvent",
    "ExplainAnswer",
    "ExplainRequest",
    "ExtenderArgs",
    "ExtenderArgsPod",
    "ExtenderFilterResult",
    "ExtenderFilterResultFailedAndUnresolvableNodes",
    "ExtenderFilterResultFailedNodes",
    "ExtenderFilterResultNodesType0",
    "FailedMemory",
    "FailureChangeAnswer",
    "FailureQuantity",
    "FailureSpeaker",
    "FamilyAnswer",
    "FieldChangeAnswer",
    "FieldDataAnswer",
    "FieldDataDecision",
    "FieldError",
    "FitAnswer",
    "FitAnswerReplayedType0",
    "FitPart",
    "FitRequest",
    "Format",
    "FormatAnswer",
    "FormatOptionsRequest",
    "FormatPage",
    "Framework",
    "GenerateRequest",
    "GenerateRequestDtype",
    "GenerateRequestOutputType",
    "GenerateRequestTask",
    "GenerateRequestTextEncoderDtype",
    "GenerateRequestVaeDtype",
    "GgufAnswer",
    "GgufAnswerByKind",
    "GgufAnswerByType",
    "GgufTensorAnswer",
    "GpuAnswer",
    "GpuAnswerAliases",
    "GpuAnswerPeakFlops",
    "GpuAnswerSources",
    "GpuByMemory",
    "GpuPage",
    "GrowthAnswer",
    "Head",
    "HealthAnswer",
    "HealthAnswerStatus",
    "HeldAnswer",
    "HookQuestionAnswer",
    "HookQuestionAnswerQuestion",
    "HookVerdict",
    "HostPriority",
    "HowManyAnswer",
    "HowManyAs",
    "HowManyFormat",
    "HowManyLoraTargetModules",
    "HowManyLoraVariant",
    "HowManyPrecision",
    "HowManyRequest",
    "HowManyRequestFormatItem",
    "HubAnswer",
    "ImportAnswer",
    "ImportEnvironment",
    "ImportItem",
    "ImportItemEnvironment",
    "ImportItemPeaks",
    "ImportItemPredictionType0",
    "ImportJob",
    "ImportMatch",
    "ImportOmission",
    "ImportPod",
    "ImportRequest",
    "ImportScope",
    "InlineModel",
    "InlineModelArchitecture",
    "InlineModelGguf",
    "InlineModelHfConfig",
    "InlineModelRecording",
    "InlineModelSafetensorsHeader",
    "InlineModelSafetensorsIndex",
    "InlinePipeline",
    "InlinePipelineConfigs",
    "InlinePipelineConfigsAdditionalProperty",
    "InlinePipelineModelIndex",
    "InlinePipelineRecording",
    "InputsRequest",
    "InputsRequestProcessor",
    "InputTokensAnswer",
    "InstantAnswer",
    "InstantAnswerParts",
    "IntervalsAnswer",
    "InventoryChangeAnswer",
    "InventoryFormat",
    "InventorySums",
    "JobEnqueueableAnswer",
    "JobEnqueueableRequest",
    "Kernels",
    "KeyAnswer",
    "KeyPage",
    "KeyRequest",
    "KueueAnswer",
    "KueueAnswerOperationsItem",
    "KueueRequest",
    "KueueRequestObjectsItem",
    "Launcher",
    "LaunchFileRequest",
    "LaunchImportAnswer",
    "LaunchImportAnswerQuestion",
    "LaunchImportAnswerVersions",
    "LaunchImportRequest",
    "LaunchImportRequestArguments",
    "LaunchImportRequestWorkload",
    "LayoutRequest",
    "LeftOutAnswer",
    "ListHookDecisionsFormat",
    "ListHookDecisionsVerdict",
    "ListMeasurementsFormat",
    "ListMeasurementsSource",
    "ListMeasurementsTask",
    "LoraKernel",
    "LoraRequest",
    "LoraRequestTargetModulesType0",
    "LoraRequestVariant",
    "Loss",
    "Maximized",
    "MeasurementAnswer",
    "MeasurementAnswerEnvironmentType0",
    "MeasurementAnswerInstantsItem",
    "MeasurementAnswerPeaksType0",
    "MeasurementAnswerPredictionType0",
    "MeasurementAnswerProbesItem",
    "MeasurementAnswerProblemType0",
    "MeasurementAnswerQuestionType0",
    "MeasurementAnswerReadingsItem",
    "MeasurementAnswerRequest",
    "MeasurementAnswerSource",
    "MeasurementAnswerStepTimeSType0",
    "MeasurementPage",
    "MeasurementRequest",
    "MeasurementRow",
    "MeasurementSort",
    "MeasurementTable",
    "MegatronRequest",
    "MemoryAnswer",
    "Method",
    "MigAnswer",
    "MigSlicesAnswer",
    "MigSlicesRequest",
    "Mode",
    "ModelAnswer",
    "ModelAnswerArchitecture",
    "ModelAnswerWeightBytes",
    "ModelCreate",
    "ModelFamilyAnswer",
    "ModelFamilyPage",
    "ModelItem",
    "ModelPage",
    "ModelReplace",
    "ModelSource",
    "ModelSourceArchitecture",
    "ModelSourceGguf",
    "ModelSourceHfConfig",
    "ModelSourceRecording",
    "ModelSourceSafetensorsHeader",
    "ModelSourceSafetensorsIndex",
    "NeverAnswer",
    "NeverAnswerStatus",
    "NewKeyAnswer",
    "NextAnswer",
    "NodeAnswer",
    "NodeList",
    "NodeListItemsItem",
    "NodeRequest",
    "NodeRequestState",
    "NotTodayAnswer",
    "NotTodayAnswerStatus",
    "Objective",
    "OffloadRequest",
    "OffloadTarget",
    "OpenQuestionAnswer",
    "OptimizerName",
    "ParametersAnswer",
    "ParametersAnswerByModule",
    "ParetoAnswer",
    "ParetoAnswerLayout",
    "ParetoAnswerWorkload",
    "PeftRequest",
    "PerGpuAnswer",
    "PictureRequest",
    "PipelineAnswer",
    "PipelineAnswerReleases",
    "PipelineComponentAnswer",
    "PipelineComponentAnswerWeightBytes",
    "PipelineFitRequest",
    "PipelineOffload",
    "PipelinePage",
    "PipelineSchedule",
    "PlaceAnswer",
    "PlacedAnswer",
    "PlacedAnswerStatus",
    "PlacementRequest",
    "PlacementRequestStatus",
    "PlanAnswer",
    "PlanCandidate",
    "PlanCandidateLayout",
    "PlanCandidateRequestsType0",
    "PlanCandidateWorkload",
    "PlannedRunAnswer",
    "PlanRequest",
    "PlanRequestFormatItem",
    "PlanRequestPrices",
    "PoolAnswer",
    "PoolPage",
    "PoolRequest",
    "PrecisionRequest",
    "PredicateAnswer",
    "PredicateRequest",
    "PredictionAnswer",
    "PrioritizeAnswer",
    "PrioritizeAnswerNodeScore",
    "PrioritizeRequest",
    "Priority",
    "ProbeDevice",
    "Problem",
    "ProcessAnswer",
    "Quantization",
    "ReadAccuracyQuantity",
    "ReadingAnswer",
    "ReadingAnswerPlace",
    "ReadKeyAnswer",
    "ReadNumberAnswer",
    "ReadyAnswer",
    "RecordingProgressAnswer",
    "Reference",
    "RefusalAnswer",
    "RejectedAnswer",
    "RemeasureAnswer",
    "RemedyAnswer",
    "RemedyAnswerChange",
    "RemedySearchAnswer",
    "RenderFitName",
    "RenderingAnswer",
    "RenderingAnswerDocumentType0",
    "RenderingRequest",
    "ReservationAnswer",
    "ReservationChangeRequest",
    "ReservationPage",
    "ReservationRequest",
    "RolloutEngine",
    "RolloutRequest",
    "RuleAnswer",
    "SampleAnswer",
    "SamplePage",
    "Sampling",
    "SchedulerJobAnswer",
    "SchedulerJobRequest",
    "Scope",
    "SearchedAnswer",
    "SearchedAnswerPruned",
    "SeatAnswer",
    "SeatRequest",
    "SelectiveRequest",
    "SequencePacking",
    "ServeCeiling",
    "ServeCeilingTask",
    "ServeRequest",
    "ServeRequestTask",
    "ServingAnswer",
    "Sharding",
    "ShareAnswer",
    "ShareRequest",
    "ShippedAnswer",
    "SkyPilotAnswer",
    "SkyPilotRequest",
    "SlurmAnswer",
    "SlurmAnswerOptions",
    "SlurmSubmission",
    "SlurmSubmissionEnvironment",
    "SlurmSubmissionOptions",
    "SoundRequest",
    "SourceAnswer",
    "SourceList",
    "SourceWithdrawal",
    "SpanAnswer",
    "SpeculativeRequest",
    "StageAnswer",
    "Status",
    "TensorAnswer",
    "ThroughputAnswer",
    "TokenDispatcher",
    "TrainCeiling",
    "TrainCeilingPrecisionType0",
    "TrainCeilingSequenceLengthsType1",
    "TrainCeilingTask",
    "Trainer",
    "TrainingAnswer",
    "TrainRequest",
    "TrainRequestPrecisionType0",
    "TrainRequestSequenceLengthsType1",
    "TrainRequestTask",
    "TransformerImpl",
    "UnknownGpuAnswer",
    "VersionAnswer",
    "VolcanoJob",
    "VolcanoJobTasksType0",
    "VolcanoNode",
    "VolcanoNodeNodeType0",
    "VolcanoTask",
    "VolcanoTaskPodType0",
    "WorkerAnswer",
    "WorkerAnswerDevicesItem",
    "WorkerAnswerObservedType0",
    "WorkerAnswerVersions",
    "WorkerPage",
    "WorstRankAnswer",
)
