"""Sentences of answers to questions, and of placements."""

from collections.abc import Mapping

_LAYOUT = "The layout, complete; POST /v1/fit takes it as `layout`."
_WORKLOAD = "The workload, complete; POST /v1/fit takes it as `workload`."
_STEP = (
    "Seconds of one optimizer step, of one decode step with the full cache, or of one pass over "
    "all prompts where nothing is generated; null where the GPU's rates are not known."
)
_COMPARED_STEP = f"{_STEP} Plans are compared before measured steps correct their times."
_COST = "USD per hour of all GPUs; null where nobody told a price."

FIT: Mapping[str, Mapping[str, str]] = {
    "FitAnswer": {
        "bases": "What each quantity rests on.",
        "capacity_bytes": "NVML's total of the GPU, in bytes.",
        "usable_bytes": "Bytes that a process can allocate on the GPU.",
        "headroom_bytes": "Usable less device bytes, never negative.",
        "deficit_bytes": "Device less usable bytes, never negative.",
        "assumptions": "Every default that was used.",
        "calibration": "Id of the calibration that the answer rests on; null of an analytic one.",
        "num_gpus": "GPUs of the layout, all replicas together.",
        "per_gpu": "Memory of the worst rank, which decides.",
        "host_bytes_per_node": "Bytes that the job keeps in the memory of one node's host: what is "
        "offloaded there, of all ranks of the node.",
        "nvme_bytes_per_node": "Bytes that the job keeps on the NVMe of one node.",
        "checkpoint_bytes": "Bytes of a checkpoint on disk; null where nothing is trained or it "
        "was not asked for.",
        "serving": "What a replica needs of its cache and has; null in training.",
        "rollout": "What the engine of a policy's rollout has on the same GPU; null without one.",
        "throughput": "Time of a step; null where it is not known or was not asked for, which "
        "`warnings` says.",
        "rules_of_thumb": "What common rules say, and by how much they are off.",
        "remedies": "What would help where it does not fit, what fits first; empty where it fits.",
        "warnings": "What the answer does not hold for, and settings that change nothing.",
    },
    "PerGpuAnswer": {
        "allocated_bytes": "Bytes of live tensors at the peak, torch.cuda.max_memory_allocated.",
        "reserved_bytes": "Bytes that the allocator has taken, torch.cuda.max_memory_reserved.",
        "device_bytes": "Bytes that NVML shows for the process.",
        "steady_bytes": "Bytes that are allocated between steps.",
        "intervals": "Bounds of the three quantities at the requested level.",
        "peak_instant": "The instant with the most allocated bytes, one of `instants`.",
        "worst_rank": "Which rank these bytes are of.",
        "components": "The bytes by part; their sum is `device_bytes`. Empty where they were not "
        "asked for.",
        "instants": "The highest allocated bytes of each part of a step, in its order.",
        "phases": "Training: forward, backward and step as a profiler counts them, each pass with "
        "its part of the loss.",
        "stages": "Each pipeline stage by itself; empty without a pipeline.",
    },
    "IntervalsAnswer": {
        "level": "Share of cases that an interval should hold.",
        "allocated": "Lower and upper end of `allocated_bytes`.",
        "reserved": "Lower and upper end of `reserved_bytes`.",
        "device": "Lower and upper end of `device_bytes`, whose upper end decides between `fits` "
        "and `tight`.",
    },
    "WorstRankAnswer": {"pipeline_stage": "Its pipeline stage, counted from 0."},
    "ComponentAnswer": {
        "name": "What the bytes are of.",
        "bytes": "Bytes of it at the peak instant, on the worst rank.",
        "basis": "How it is known: counted (`exact`), computed by a rule with a source "
        "(`formula`), read from a run (`measured`) or continued from smaller ones "
        "(`extrapolated`).",
    },
    "InstantAnswer": {
        "name": "The part of the step.",
        "allocated_bytes": "The most bytes of live tensors during it.",
    },
    "StageAnswer": {
        "pipeline_stage": "The stage, counted from 0.",
        "allocated_bytes": "The most bytes of live tensors on one of its ranks.",
        "steady_bytes": "Bytes of live tensors there between steps.",
    },
    "BasesAnswer": {"allocated": "What the allocated bytes rest on."},
    "CheckpointAnswer": {
        "weights": "Bytes of the weights, or of the adapters.",
        "optimizer": "Bytes of the optimizer's states and master weights.",
        "total": "Bytes of one checkpoint.",
        "save_total_limit": "Checkpoints that are kept; null keeps all.",
        "disk": "Bytes of those that are kept, and of the next, which is written before one goes; "
        "null where all are kept.",
    },
    "ServingAnswer": {
        "kv_bytes_per_token": "Bytes that one more token of one sequence takes in the cache, on "
        "one rank.",
        "kv_cache_bytes": "Bytes of the cache of all sequences at their full length.",
        "required_bytes": "Bytes that the load needs: of an engine with a pool what must be in "
        "its budget, else what is allocated at the peak.",
        "budget_bytes": "Bytes that there are for it: the engine's share of the GPU, else what a "
        "process can allocate.",
        "kv_pool_bytes": "Bytes of the pool of blocks that the engine makes for its cache; null "
        "of engines without one.",
        "kv_pool_tokens": "Tokens that the pool holds, as the engine logs it at its start; null "
        "of engines without one.",
        "max_num_sequences": "Sequences of the load's length that the pool holds at once; null of "
        "engines without one.",
    },
    "ThroughputAnswer": {
        "hours_for_tokens": "Hours for the run's `num_tokens`; null where none are said.",
        "prefill_time_s": "Seconds until all prompts are read; null in training.",
        "host_time_s": "Seconds in which the host launches a step's kernels.",
        "gpu_time_s": "Seconds in which the GPU runs them, without waiting for others.",
        "bound": "The side that decides the time.",
        "bound_reason": "Why, and what would help.",
        "step_time_s": "Seconds of one optimizer step, accumulation included, of one decode step "
        "with the full cache, or of one pass over all prompts where nothing is generated.",
        "tokens_per_second": "Tokens of the whole job per second: trained, generated, or read "
        "where nothing is generated.",
        "tokens_per_second_per_gpu": "The same over the number of GPUs.",
        "mfu": "Share of the peak rate of all GPUs that the model's own products use (PaLM's "
        "model FLOPs utilization), 0 to 1.",
        "basis": "`analytic`, `calibrated` by times of runs like it, or `measured` itself.",
    },
    "RuleAnswer": {
        "name": "What the rule is called.",
        "bytes": "Bytes that the rule says, for one GPU unless `why` says of what else; null "
        "where it is about time.",
        "our_bytes": "Our bytes of the same thing; null where the rule is about time.",
        "seconds": "Seconds of a step that the rule says; null where it is about bytes.",
        "our_seconds": "Our seconds of a step; null where the rule is about bytes.",
        "off_by": "The rule's figure over ours, less 1; negative where the rule says too little.",
        "why": "Which of our figures it is held against, and what it leaves out.",
        "source": "The article, documentation or code that says it.",
    },
    "BatchAnswer": {
        "items": "One for each question, in their order: an answer of POST /v1/fit, or `problem`.",
    },
}
SEARCHES: Mapping[str, Mapping[str, str]] = {
    "MemoryAnswer": {"memory_bytes": "Bytes that a process can allocate on it."},
    "CandidateAnswer": {
        "num_gpus": "GPUs of the configuration.",
        "layout": _LAYOUT,
        "workload": _WORKLOAD,
        "verdict": "`fits`, or `tight` where the confidence allows it.",
        "allocated_bytes": "The most bytes of live tensors on the worst rank.",
        "reserved_bytes": "Bytes that PyTorch's allocator has taken there.",
        "device_bytes": "Bytes that NVML shows of the process there.",
        "device_interval": "Lower and upper end of `device_bytes` at the level asked for.",
        "headroom_bytes": "Usable bytes less device bytes.",
        "warnings": "What the answer does not hold for.",
    },
    "RejectedAnswer": {
        "num_gpus": "GPUs that are not enough.",
        "reason": "Why, in words.",
        "instant": "The instant at which the nearest configuration lacks bytes.",
        "component": "The largest part of the bytes then.",
        "deficit_bytes": "Device less usable bytes, 0 when it is only tight.",
        "missing_bytes": "Bytes that it lacks for the confidence, at the upper end of the "
        "interval.",
    },
    "SearchedAnswer": {
        "layouts": "Configurations that were considered.",
        "estimated": "Those of them whose bytes were estimated.",
        "pruned": "Those that needed no estimate, by the reason why they cannot be the answer.",
        "elapsed_ms": "Milliseconds that the search took.",
    },
    "HowManyAnswer": {
        "num_gpus": "The fewest GPUs that are enough; null where no number within the limits is.",
        "searched": "How much was looked at.",
    },
    "FamilyAnswer": {"answers": "One answer for each SKU of the family."},
    "CeilingRequest": {
        "gpu": "Name or alias of a GPU, or its memory.",
        "layout": "How it is spread; default one GPU.",
    },
    "CeilingAnswer": {
        "value": "The largest value that fits; null where not even the least does.",
        "maximize": "What was made as large as it goes.",
        "next": "What one more lacks.",
    },
    "NextAnswer": {
        "value": "The next value; null where there is none, as at a bound of the request.",
        "reason": "What it lacks, or why it cannot run.",
    },
    "PlanCandidate": {
        "num_gpus": "GPUs of the plan, all replicas together.",
        "layout": _LAYOUT,
        "workload": _WORKLOAD,
        "fit": "The answer of POST /v1/fit to this plan, without remedies.",
    },
    "AlternativeAnswer": {
        "num_gpus": "The fewest GPUs of this kind that are enough; null where none are.",
        "step_time_s": _COMPARED_STEP,
        "cost_per_hour": _COST,
        "device_bytes": "Bytes that NVML shows of the process on the worst rank; null where "
        "nothing is enough.",
    },
    "ParetoAnswer": {
        "num_gpus": "GPUs of the plan.",
        "device_bytes": "Bytes that NVML shows of the process on the worst rank.",
        "step_time_s": _COMPARED_STEP,
        "tokens_per_second": "Tokens of the whole job per second; null where the GPU's rates are "
        "not known.",
        "cost_per_hour": _COST,
        "layout": _LAYOUT,
        "workload": _WORKLOAD,
    },
    "PlanAnswer": {
        "num_gpus": "GPUs of the best plan; null where nothing is enough.",
        "objective": "What the best plan is best at.",
        "confidence": "Level of the intervals at whose upper end a plan fits; null where what is "
        "tight was accepted.",
        "searched": "How much was looked at.",
    },
    "PlacedAnswer": {
        "fits_now": "Whether it fits beside what is used and reserved now.",
        "fits_at_all": "Whether it fits on the empty cluster, with every node in service.",
        "num_gpus": "GPUs that are given to the job, of all nodes.",
        "nodes": "The GPUs of every replica, node by node.",
        "notes": "What the placement rests on.",
    },
    "HeldAnswer": {"num_gpus": "GPUs that are held in this way."},
    "NotTodayAnswer": {
        "fits_now": "Whether it fits beside what is used and reserved now.",
        "fits_at_all": "Whether it fits on the empty cluster, with every node in service.",
        "reason": "What is lacking today, in words.",
        "free_gpus": "GPUs of this kind that are free now.",
        "total_gpus": "GPUs of this kind on the empty cluster.",
        "held": "Who holds the others.",
    },
    "NeverAnswer": {
        "fits_now": "Whether it fits beside what is used and reserved now.",
        "fits_at_all": "Whether it fits on the empty cluster, with every node in service.",
        "reason": "Why even the empty cluster is too small, in words.",
        "total_gpus": "GPUs of this kind on the empty cluster.",
    },
    "PlacementRequest": {
        "fits_now": "As a plan sent it; it changes nothing.",
        "fits_at_all": "As a plan sent it; it changes nothing.",
        "status": "As a plan sent it; it changes nothing.",
        "gpus_per_node": "As a plan sent it, null where its nodes differ; it changes nothing.",
        "cost_per_hour": "As a plan sent it, null without a price; it changes nothing.",
        "notes": "As a plan sent them; they change nothing.",
    },
}
