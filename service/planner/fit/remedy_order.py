"""Order in which a person would try the remedies."""

from service.planner.fit.remedy_steps import (
    RemedyStep,
    add_data_parallel_ranks,
    add_pipeline_stages,
    drop_logits,
    halve_micro_batch,
    offload_states,
    quantize_weights,
    raise_zero_stage,
    reduce_sequences,
    shorten_sequences,
    shrink_optimizer_states,
    split_replica,
    use_flash_attention,
    use_fp8_cache,
    use_full_checkpointing,
    use_fused_optimizer,
    use_lora,
    use_qlora,
    use_selective_checkpointing,
    use_smaller_loss,
)

REMEDY_STEPS: tuple[RemedyStep, ...] = (
    use_fused_optimizer,
    drop_logits,
    use_flash_attention,
    use_smaller_loss,
    shrink_optimizer_states,
    use_selective_checkpointing,
    use_full_checkpointing,
    offload_states,
    use_lora,
    use_qlora,
    shorten_sequences,
    use_fp8_cache,
    quantize_weights,
    raise_zero_stage,
    halve_micro_batch,
    reduce_sequences,
    add_pipeline_stages,
    split_replica,
    add_data_parallel_ranks,
)
"""Steps to try.

Those that go step by step come last: of two steps the second is taken as far as is needed.
"""
