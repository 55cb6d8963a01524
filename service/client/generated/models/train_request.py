from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.allocator import Allocator, check_allocator
from ..models.attention import Attention, check_attention
from ..models.checkpointing import Checkpointing, check_checkpointing
from ..models.framework import Framework, check_framework
from ..models.kernels import Kernels, check_kernels
from ..models.loss import Loss, check_loss
from ..models.method import Method, check_method
from ..models.optimizer_name import OptimizerName, check_optimizer_name
from ..models.reference import Reference, check_reference
from ..models.sequence_packing import SequencePacking, check_sequence_packing
from ..models.train_request_precision_type_0 import TrainRequestPrecisionType0, check_train_request_precision_type_0
from ..models.train_request_task import TrainRequestTask, check_train_request_task
from ..models.trainer import Trainer, check_trainer
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.critic_request import CriticRequest
    from ..models.evaluation_request import EvaluationRequest
    from ..models.inputs_request import InputsRequest
    from ..models.lora_request import LoraRequest
    from ..models.megatron_request import MegatronRequest
    from ..models.offload_request import OffloadRequest
    from ..models.peft_request import PeftRequest
    from ..models.precision_request import PrecisionRequest
    from ..models.rollout_request import RolloutRequest
    from ..models.selective_request import SelectiveRequest
    from ..models.train_request_sequence_lengths_type_1 import TrainRequestSequenceLengthsType1


T = TypeVar("T", bound="TrainRequest")


@_attrs_define
class TrainRequest:
    """One training step.

    Attributes:
        task (TrainRequestTask): Always `train`: by it a TrainRequest is told from others.
        sequence_length (int | Unset): Tokens of one sequence; only `inputs` may replace it.
        micro_batch_size (int | Unset): Sequences that one data-parallel rank runs at once.
        gradient_accumulation_steps (int | Unset): Micro batches per optimizer step.
        framework (Framework | Unset): Framework whose model code runs; each keeps other tensors for backward.
        framework_version (str | Unset): Version of the framework.
        method (Method | Unset): Training method, which decides the trained parameters.
        precision (PrecisionRequest | TrainRequestPrecisionType0 | Unset): A named policy or single formats.
        optimizer (OptimizerName | Unset): Optimizer by its library and the format of its states.

            A name of transformers' ``OptimizerNames`` is read as the member that it means.
        activation_checkpointing (Checkpointing | SelectiveRequest | Unset): What backward computes again.
        attention (Attention | Unset): Attention kernel; ``sdpa`` is the one that CUDA would choose.
        loss (Loss | Unset): Loss kernel, by its treatment of the logits.
        trainer (Trainer | Unset): Kind of training, which decides the forward passes of a step.
        reference (Reference | Unset): Source of the log-probabilities of a reference.
        completion_length (int | Unset): Of `grpo`: generated tokens of a sequence; default all of them.
        log_prob_batch_size (int | Unset): Of `grpo`: sequences of the forward passes before the update; default
            `micro_batch_size`.
        entropy_bonus (bool | Unset): Of `grpo`: the entropy of whole logits is in the loss (verl).
        rollout (RolloutRequest | Unset): The engine that generates completions on the trainer's GPUs.
        critic (CriticRequest | Unset): The value model that PPO trains beside a policy, as sharded and in the same
            formats.
        evaluation (EvaluationRequest | Unset): An evaluation between training steps (`eval_strategy` of transformers'
            Trainer).
        kernels (Kernels | Unset): Kernels that replace a model's own operations.
        keeps_logits (bool | Unset): The loop holds the logits during backward.
        packing (SequencePacking | Unset): Way in which the sequences of a micro batch become rows.
        sequence_lengths (list[int] | TrainRequestSequenceLengthsType1 | Unset): Lengths of the data's sequences, as a
            list or as a number of sequences by length; the answer is for the worst batch, `sequence_length` cuts what is
            longer.
        fp32_outputs (bool | Unset): Under autocast, what the model returns is cast to fp32 (accelerate).
        padding_mask (bool | Unset): Batches carry a padding mask.
        reentrant_checkpointing (bool | Unset): Checkpoints of `use_reentrant=True`.
        gradient_clipping (bool | Unset): Gradients are clipped by norm.
        allocator (Allocator | Unset): Segments of PyTorch's allocator, fixed or growing (``PYTORCH_CUDA_ALLOC_CONF``).
        fp32_norms_and_head (bool | Unset): PEFT's prepare_model_for_kbit_training.
        double_quantization (bool | Unset): nf4 scales are quantised too.
        quantization_bits (int | Unset): Bits of a weight under the adapters of method `qlora`: 4 is bitsandbytes' nf4,
            8 its LLM.int8(), 2 GPTQ with groups of 128.
        optimizer_in_backward (bool | Unset): The optimizer steps inside backward.
        compile_ (bool | Unset): torch.compile, without CUDA graphs; on transformers the intervals reach up to what the
            step needs without it.
        deterministic (bool | Unset): Kernels that give the same bits each time.
        float8 (bool | Unset): Matrix products in fp8.
        frozen (list[str] | Unset): Kinds of modules that are not trained, by the names of a model's
            `parameters.by_module`.
        lora (LoraRequest | Unset): Low-rank adapters (arXiv:2106.09685).
        peft (PeftRequest | Unset): Another kind of parameter-efficient training.
        offload (OffloadRequest | Unset): What lives outside the GPU.
        megatron (MegatronRequest | Unset): Arguments of Megatron-LM's `pretrain_gpt.py` that other frameworks do not
            have.
        decoder_length (int | Unset): Decoder tokens of an encoder-decoder.
        num_images (int | Unset): Images per sequence.
        image_tokens (int | Unset): Tokens per image.
        inputs (InputsRequest | Unset): Images, videos and audio of each sequence. The processor's own rules make tokens
            of them, which `sequence_length` or `prompt_tokens` counts.
        audio_frames (int | Unset): Audio frames per sequence.
        num_tokens (int | Unset): Tokens of the whole run, for its hours.
        num_samples (int | Unset): Samples of the whole run in place of `num_tokens`: each is `sequence_length` tokens,
            packed ones are the mean of `sequence_lengths`, pairs are twice as many.
        save_total_limit (int | Unset): Checkpoints that transformers' Trainer keeps, for the disk they take.
    """

    task: TrainRequestTask
    sequence_length: int | Unset = UNSET
    micro_batch_size: int | Unset = UNSET
    gradient_accumulation_steps: int | Unset = UNSET
    framework: Framework | Unset = UNSET
    framework_version: str | Unset = UNSET
    method: Method | Unset = UNSET
    precision: PrecisionRequest | TrainRequestPrecisionType0 | Unset = UNSET
    optimizer: OptimizerName | Unset = UNSET
    activation_checkpointing: Checkpointing | SelectiveRequest | Unset = UNSET
    attention: Attention | Unset = UNSET
    loss: Loss | Unset = UNSET
    trainer: Trainer | Unset = UNSET
    reference: Reference | Unset = UNSET
    completion_length: int | Unset = UNSET
    log_prob_batch_size: int | Unset = UNSET
    entropy_bonus: bool | Unset = UNSET
    rollout: RolloutRequest | Unset = UNSET
    critic: CriticRequest | Unset = UNSET
    evaluation: EvaluationRequest | Unset = UNSET
    kernels: Kernels | Unset = UNSET
    keeps_logits: bool | Unset = UNSET
    packing: SequencePacking | Unset = UNSET
    sequence_lengths: list[int] | TrainRequestSequenceLengthsType1 | Unset = UNSET
    fp32_outputs: bool | Unset = UNSET
    padding_mask: bool | Unset = UNSET
    reentrant_checkpointing: bool | Unset = UNSET
    gradient_clipping: bool | Unset = UNSET
    allocator: Allocator | Unset = UNSET
    fp32_norms_and_head: bool | Unset = UNSET
    double_quantization: bool | Unset = UNSET
    quantization_bits: int | Unset = UNSET
    optimizer_in_backward: bool | Unset = UNSET
    compile_: bool | Unset = UNSET
    deterministic: bool | Unset = UNSET
    float8: bool | Unset = UNSET
    frozen: list[str] | Unset = UNSET
    lora: LoraRequest | Unset = UNSET
    peft: PeftRequest | Unset = UNSET
    offload: OffloadRequest | Unset = UNSET
    megatron: MegatronRequest | Unset = UNSET
    decoder_length: int | Unset = UNSET
    num_images: int | Unset = UNSET
    image_tokens: int | Unset = UNSET
    inputs: InputsRequest | Unset = UNSET
    audio_frames: int | Unset = UNSET
    num_tokens: int | Unset = UNSET
    num_samples: int | Unset = UNSET
    save_total_limit: int | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        task: str = self.task

        sequence_length = self.sequence_length

        micro_batch_size = self.micro_batch_size

        gradient_accumulation_steps = self.gradient_accumulation_steps

        framework: str | Unset = UNSET
        if not isinstance(self.framework, Unset):
            framework = self.framework

        framework_version = self.framework_version

        method: str | Unset = UNSET
        if not isinstance(self.method, Unset):
            method = self.method

        precision: dict[str, Any] | str | Unset
        if isinstance(self.precision, Unset):
            precision = UNSET
        elif isinstance(self.precision, str):
            precision = self.precision
        else:
            precision = self.precision.to_dict()

        optimizer: str | Unset = UNSET
        if not isinstance(self.optimizer, Unset):
            optimizer = self.optimizer

        activation_checkpointing: dict[str, Any] | str | Unset
        if isinstance(self.activation_checkpointing, Unset):
            activation_checkpointing = UNSET
        elif isinstance(self.activation_checkpointing, str):
            activation_checkpointing = self.activation_checkpointing
        else:
            activation_checkpointing = self.activation_checkpointing.to_dict()

        attention: str | Unset = UNSET
        if not isinstance(self.attention, Unset):
            attention = self.attention

        loss: str | Unset = UNSET
        if not isinstance(self.loss, Unset):
            loss = self.loss

        trainer: str | Unset = UNSET
        if not isinstance(self.trainer, Unset):
            trainer = self.trainer

        reference: str | Unset = UNSET
        if not isinstance(self.reference, Unset):
            reference = self.reference

        completion_length = self.completion_length

        log_prob_batch_size = self.log_prob_batch_size

        entropy_bonus = self.entropy_bonus

        rollout: dict[str, Any] | Unset = UNSET
        if not isinstance(self.rollout, Unset):
            rollout = self.rollout.to_dict()

        critic: dict[str, Any] | Unset = UNSET
        if not isinstance(self.critic, Unset):
            critic = self.critic.to_dict()

        evaluation: dict[str, Any] | Unset = UNSET
        if not isinstance(self.evaluation, Unset):
            evaluation = self.evaluation.to_dict()

        kernels: str | Unset = UNSET
        if not isinstance(self.kernels, Unset):
            kernels = self.kernels

        keeps_logits = self.keeps_logits

        packing: str | Unset = UNSET
        if not isinstance(self.packing, Unset):
            packing = self.packing

        sequence_lengths: dict[str, Any] | list[int] | Unset
        if isinstance(self.sequence_lengths, Unset):
            sequence_lengths = UNSET
        elif isinstance(self.sequence_lengths, list):
            sequence_lengths = self.sequence_lengths

        else:
            sequence_lengths = self.sequence_lengths.to_dict()

        fp32_outputs = self.fp32_outputs

        padding_mask = self.padding_mask

        reentrant_checkpointing = self.reentrant_checkpointing

        gradient_clipping = self.gradient_clipping

        allocator: str | Unset = UNSET
        if not isinstance(self.allocator, Unset):
            allocator = self.allocator

        fp32_norms_and_head = self.fp32_norms_and_head

        double_quantization = self.double_quantization

        quantization_bits = self.quantization_bits

        optimizer_in_backward = self.optimizer_in_backward

        compile_ = self.compile_

        deterministic = self.deterministic

        float8 = self.float8

        frozen: list[str] | Unset = UNSET
        if not isinstance(self.frozen, Unset):
            frozen = self.frozen

        lora: dict[str, Any] | Unset = UNSET
        if not isinstance(self.lora, Unset):
            lora = self.lora.to_dict()

        peft: dict[str, Any] | Unset = UNSET
        if not isinstance(self.peft, Unset):
            peft = self.peft.to_dict()

        offload: dict[str, Any] | Unset = UNSET
        if not isinstance(self.offload, Unset):
            offload = self.offload.to_dict()

        megatron: dict[str, Any] | Unset = UNSET
        if not isinstance(self.megatron, Unset):
            megatron = self.megatron.to_dict()

        decoder_length = self.decoder_length

        num_images = self.num_images

        image_tokens = self.image_tokens

        inputs: dict[str, Any] | Unset = UNSET
        if not isinstance(self.inputs, Unset):
            inputs = self.inputs.to_dict()

        audio_frames = self.audio_frames

        num_tokens = self.num_tokens

        num_samples = self.num_samples

        save_total_limit = self.save_total_limit

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "task": task,
            }
        )
        if sequence_length is not UNSET:
            field_dict["sequence_length"] = sequence_length
        if micro_batch_size is not UNSET:
            field_dict["micro_batch_size"] = micro_batch_size
        if gradient_accumulation_steps is not UNSET:
            field_dict["gradient_accumulation_steps"] = gradient_accumulation_steps
        if framework is not UNSET:
            field_dict["framework"] = framework
        if framework_version is not UNSET:
            field_dict["framework_version"] = framework_version
        if method is not UNSET:
            field_dict["method"] = method
        if precision is not UNSET:
            field_dict["precision"] = precision
        if optimizer is not UNSET:
            field_dict["optimizer"] = optimizer
        if activation_checkpointing is not UNSET:
            field_dict["activation_checkpointing"] = activation_checkpointing
        if attention is not UNSET:
            field_dict["attention"] = attention
        if loss is not UNSET:
            field_dict["loss"] = loss
        if trainer is not UNSET:
            field_dict["trainer"] = trainer
        if reference is not UNSET:
            field_dict["reference"] = reference
        if completion_length is not UNSET:
            field_dict["completion_length"] = completion_length
        if log_prob_batch_size is not UNSET:
            field_dict["log_prob_batch_size"] = log_prob_batch_size
        if entropy_bonus is not UNSET:
            field_dict["entropy_bonus"] = entropy_bonus
        if rollout is not UNSET:
            field_dict["rollout"] = rollout
        if critic is not UNSET:
            field_dict["critic"] = critic
        if evaluation is not UNSET:
            field_dict["evaluation"] = evaluation
        if kernels is not UNSET:
            field_dict["kernels"] = kernels
        if keeps_logits is not UNSET:
            field_dict["keeps_logits"] = keeps_logits
        if packing is not UNSET:
            field_dict["packing"] = packing
        if sequence_lengths is not UNSET:
            field_dict["sequence_lengths"] = sequence_lengths
        if fp32_outputs is not UNSET:
            field_dict["fp32_outputs"] = fp32_outputs
        if padding_mask is not UNSET:
            field_dict["padding_mask"] = padding_mask
        if reentrant_checkpointing is not UNSET:
            field_dict["reentrant_checkpointing"] = reentrant_checkpointing
        if gradient_clipping is not UNSET:
            field_dict["gradient_clipping"] = gradient_clipping
        if allocator is not UNSET:
            field_dict["allocator"] = allocator
        if fp32_norms_and_head is not UNSET:
            field_dict["fp32_norms_and_head"] = fp32_norms_and_head
        if double_quantization is not UNSET:
            field_dict["double_quantization"] = double_quantization
        if quantization_bits is not UNSET:
            field_dict["quantization_bits"] = quantization_bits
        if optimizer_in_backward is not UNSET:
            field_dict["optimizer_in_backward"] = optimizer_in_backward
        if compile_ is not UNSET:
            field_dict["compile"] = compile_
        if deterministic is not UNSET:
            field_dict["deterministic"] = deterministic
        if float8 is not UNSET:
            field_dict["float8"] = float8
        if frozen is not UNSET:
            field_dict["frozen"] = frozen
        if lora is not UNSET:
            field_dict["lora"] = lora
        if peft is not UNSET:
            field_dict["peft"] = peft
        if offload is not UNSET:
            field_dict["offload"] = offload
        if megatron is not UNSET:
            field_dict["megatron"] = megatron
        if decoder_length is not UNSET:
            field_dict["decoder_length"] = decoder_length
        if num_images is not UNSET:
            field_dict["num_images"] = num_images
        if image_tokens is not UNSET:
            field_dict["image_tokens"] = image_tokens
        if inputs is not UNSET:
            field_dict["inputs"] = inputs
        if audio_frames is not UNSET:
            field_dict["audio_frames"] = audio_frames
        if num_tokens is not UNSET:
            field_dict["num_tokens"] = num_tokens
        if num_samples is not UNSET:
            field_dict["num_samples"] = num_samples
        if save_total_limit is not UNSET:
            field_dict["save_total_limit"] = save_total_limit

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.critic_request import CriticRequest  # noqa: PLC0415
        from ..models.evaluation_request import EvaluationRequest  # noqa: PLC0415
        from ..models.inputs_request import InputsRequest  # noqa: PLC0415
        from ..models.lora_request import LoraRequest  # noqa: PLC0415
        from ..models.megatron_request import MegatronRequest  # noqa: PLC0415
        from ..models.offload_request import OffloadRequest  # noqa: PLC0415
        from ..models.peft_request import PeftRequest  # noqa: PLC0415
        from ..models.precision_request import PrecisionRequest  # noqa: PLC0415
        from ..models.rollout_request import RolloutRequest  # noqa: PLC0415
        from ..models.selective_request import SelectiveRequest  # noqa: PLC0415
        from ..models.train_request_sequence_lengths_type_1 import TrainRequestSequenceLengthsType1  # noqa: PLC0415

        d = dict(src_dict)
        task = check_train_request_task(d.pop("task"))

        sequence_length = d.pop("sequence_length", UNSET)

        micro_batch_size = d.pop("micro_batch_size", UNSET)

        gradient_accumulation_steps = d.pop("gradient_accumulation_steps", UNSET)

        _framework = d.pop("framework", UNSET)
        framework: Framework | Unset
        if isinstance(_framework, Unset):
            framework = UNSET
        else:
            framework = check_framework(_framework)

        framework_version = d.pop("framework_version", UNSET)

        _method = d.pop("method", UNSET)
        method: Method | Unset
        if isinstance(_method, Unset):
            method = UNSET
        else:
            method = check_method(_method)

        def _parse_precision(data: object) -> PrecisionRequest | TrainRequestPrecisionType0 | Unset:
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, str):
                    raise TypeError()
                precision_type_0 = check_train_request_precision_type_0(data)

                return precision_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            if not isinstance(data, dict):
                raise TypeError()
            precision_type_1 = PrecisionRequest.from_dict(data)

            return precision_type_1

        precision = _parse_precision(d.pop("precision", UNSET))

        _optimizer = d.pop("optimizer", UNSET)
        optimizer: OptimizerName | Unset
        if isinstance(_optimizer, Unset):
            optimizer = UNSET
        else:
            optimizer = check_optimizer_name(_optimizer)

        def _parse_activation_checkpointing(data: object) -> Checkpointing | SelectiveRequest | Unset:
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, str):
                    raise TypeError()
                activation_checkpointing_type_0 = check_checkpointing(data)

                return activation_checkpointing_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            if not isinstance(data, dict):
                raise TypeError()
            activation_checkpointing_type_1 = SelectiveRequest.from_dict(data)

            return activation_checkpointing_type_1

        activation_checkpointing = _parse_activation_checkpointing(d.pop("activation_checkpointing", UNSET))

        _attention = d.pop("attention", UNSET)
        attention: Attention | Unset
        if isinstance(_attention, Unset):
            attention = UNSET
        else:
            attention = check_attention(_attention)

        _loss = d.pop("loss", UNSET)
        loss: Loss | Unset
        if isinstance(_loss, Unset):
            loss = UNSET
        else:
            loss = check_loss(_loss)

        _trainer = d.pop("trainer", UNSET)
        trainer: Trainer | Unset
        if isinstance(_trainer, Unset):
            trainer = UNSET
        else:
            trainer = check_trainer(_trainer)

        _reference = d.pop("reference", UNSET)
        reference: Reference | Unset
        if isinstance(_reference, Unset):
            reference = UNSET
        else:
            reference = check_reference(_reference)

        completion_length = d.pop("completion_length", UNSET)

        log_prob_batch_size = d.pop("log_prob_batch_size", UNSET)

        entropy_bonus = d.pop("entropy_bonus", UNSET)

        _rollout = d.pop("rollout", UNSET)
        rollout: RolloutRequest | Unset
        if isinstance(_rollout, Unset):
            rollout = UNSET
        else:
            rollout = RolloutRequest.from_dict(_rollout)

        _critic = d.pop("critic", UNSET)
        critic: CriticRequest | Unset
        if isinstance(_critic, Unset):
            critic = UNSET
        else:
            critic = CriticRequest.from_dict(_critic)

        _evaluation = d.pop("evaluation", UNSET)
        evaluation: EvaluationRequest | Unset
        if isinstance(_evaluation, Unset):
            evaluation = UNSET
        else:
            evaluation = EvaluationRequest.from_dict(_evaluation)

        _kernels = d.pop("kernels", UNSET)
        kernels: Kernels | Unset
        if isinstance(_kernels, Unset):
            kernels = UNSET
        else:
            kernels = check_kernels(_kernels)

        keeps_logits = d.pop("keeps_logits", UNSET)

        _packing = d.pop("packing", UNSET)
        packing: SequencePacking | Unset
        if isinstance(_packing, Unset):
            packing = UNSET
        else:
            packing = check_sequence_packing(_packing)

        def _parse_sequence_lengths(data: object) -> list[int] | TrainRequestSequenceLengthsType1 | Unset:
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, list):
                    raise TypeError()
                sequence_lengths_type_0 = cast(list[int], data)

                return sequence_lengths_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            if not isinstance(data, dict):
                raise TypeError()
            sequence_lengths_type_1 = TrainRequestSequenceLengthsType1.from_dict(data)

            return sequence_lengths_type_1

        sequence_lengths = _parse_sequence_lengths(d.pop("sequence_lengths", UNSET))

        fp32_outputs = d.pop("fp32_outputs", UNSET)

        padding_mask = d.pop("padding_mask", UNSET)

        reentrant_checkpointing = d.pop("reentrant_checkpointing", UNSET)

        gradient_clipping = d.pop("gradient_clipping", UNSET)

        _allocator = d.pop("allocator", UNSET)
        allocator: Allocator | Unset
        if isinstance(_allocator, Unset):
            allocator = UNSET
        else:
            allocator = check_allocator(_allocator)

        fp32_norms_and_head = d.pop("fp32_norms_and_head", UNSET)

        double_quantization = d.pop("double_quantization", UNSET)

        quantization_bits = d.pop("quantization_bits", UNSET)

        optimizer_in_backward = d.pop("optimizer_in_backward", UNSET)

        compile_ = d.pop("compile", UNSET)

        deterministic = d.pop("deterministic", UNSET)

        float8 = d.pop("float8", UNSET)

        frozen = cast(list[str], d.pop("frozen", UNSET))

        _lora = d.pop("lora", UNSET)
        lora: LoraRequest | Unset
        if isinstance(_lora, Unset):
            lora = UNSET
        else:
            lora = LoraRequest.from_dict(_lora)

        _peft = d.pop("peft", UNSET)
        peft: PeftRequest | Unset
        if isinstance(_peft, Unset):
            peft = UNSET
        else:
            peft = PeftRequest.from_dict(_peft)

        _offload = d.pop("offload", UNSET)
        offload: OffloadRequest | Unset
        if isinstance(_offload, Unset):
            offload = UNSET
        else:
            offload = OffloadRequest.from_dict(_offload)

        _megatron = d.pop("megatron", UNSET)
        megatron: MegatronRequest | Unset
        if isinstance(_megatron, Unset):
            megatron = UNSET
        else:
            megatron = MegatronRequest.from_dict(_megatron)

        decoder_length = d.pop("decoder_length", UNSET)

        num_images = d.pop("num_images", UNSET)

        image_tokens = d.pop("image_tokens", UNSET)

        _inputs = d.pop("inputs", UNSET)
        inputs: InputsRequest | Unset
        if isinstance(_inputs, Unset):
            inputs = UNSET
        else:
            inputs = InputsRequest.from_dict(_inputs)

        audio_frames = d.pop("audio_frames", UNSET)

        num_tokens = d.pop("num_tokens", UNSET)

        num_samples = d.pop("num_samples", UNSET)

        save_total_limit = d.pop("save_total_limit", UNSET)

        train_request = cls(
            task=task,
            sequence_length=sequence_length,
            micro_batch_size=micro_batch_size,
            gradient_accumulation_steps=gradient_accumulation_steps,
            framework=framework,
            framework_version=framework_version,
            method=method,
            precision=precision,
            optimizer=optimizer,
            activation_checkpointing=activation_checkpointing,
            attention=attention,
            loss=loss,
            trainer=trainer,
            reference=reference,
            completion_length=completion_length,
            log_prob_batch_size=log_prob_batch_size,
            entropy_bonus=entropy_bonus,
            rollout=rollout,
            critic=critic,
            evaluation=evaluation,
            kernels=kernels,
            keeps_logits=keeps_logits,
            packing=packing,
            sequence_lengths=sequence_lengths,
            fp32_outputs=fp32_outputs,
            padding_mask=padding_mask,
            reentrant_checkpointing=reentrant_checkpointing,
            gradient_clipping=gradient_clipping,
            allocator=allocator,
            fp32_norms_and_head=fp32_norms_and_head,
            double_quantization=double_quantization,
            quantization_bits=quantization_bits,
            optimizer_in_backward=optimizer_in_backward,
            compile_=compile_,
            deterministic=deterministic,
            float8=float8,
            frozen=frozen,
            lora=lora,
            peft=peft,
            offload=offload,
            megatron=megatron,
            decoder_length=decoder_length,
            num_images=num_images,
            image_tokens=image_tokens,
            inputs=inputs,
            audio_frames=audio_frames,
            num_tokens=num_tokens,
            num_samples=num_samples,
            save_total_limit=save_total_limit,
        )

        return train_request
