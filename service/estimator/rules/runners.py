"""The table of whoever runs a workload."""

from collections.abc import Mapping

from service.estimator.rules.grammar.rule import RuleTable
from service.estimator.rules.tables.serving.own_engines import (
    SERVE_LLAMA_CPP,
    SERVE_SGLANG,
    SERVE_TENSORRT_LLM,
    SERVE_VLLM,
)
from service.estimator.rules.tables.serving.share_engines import SERVE_LMDEPLOY, SERVE_TGI
from service.estimator.rules.tables.serving.transformers import SERVE_TRANSFORMERS
from service.estimator.rules.tables.training.litgpt import TRAIN_LITGPT
from service.estimator.rules.tables.training.megatron import TRAIN_MEGATRON
from service.estimator.rules.tables.training.torchtitan import TRAIN_TORCHTITAN
from service.estimator.rules.tables.training.transformers import TRAIN_TRANSFORMERS
from service.estimator.values.workload import Engine, Framework, ServeWorkload, Workload

FRAMEWORKS: Mapping[Framework, RuleTable] = {
    Framework.TRANSFORMERS: TRAIN_TRANSFORMERS,
    Framework.MEGATRON: TRAIN_MEGATRON,
    Framework.TORCHTITAN: TRAIN_TORCHTITAN,
    Framework.LITGPT: TRAIN_LITGPT,
}
ENGINES: Mapping[Engine, RuleTable] = {
    Engine.TRANSFORMERS: SERVE_TRANSFORMERS,
    Engine.VLLM: SERVE_VLLM,
    Engine.SGLANG: SERVE_SGLANG,
    Engine.TENSORRT_LLM: SERVE_TENSORRT_LLM,
    Engine.LLAMA_CPP: SERVE_LLAMA_CPP,
    Engine.LMDEPLOY: SERVE_LMDEPLOY,
    Engine.TGI: SERVE_TGI,
}


def get_rule_table(workload: Workload) -> RuleTable:
    """Return the table of a workload's framework or engine."""
    if isinstance(workload, ServeWorkload):
        return ENGINES[workload.engine]
    return FRAMEWORKS[workload.framework]
