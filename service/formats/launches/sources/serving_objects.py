"""Engines that objects describe by fields, as commands.

KServe 0.21 (``InferenceService`` of the formats huggingface and vLLM, ``LLMInferenceService``:
config/llmisvcconfig), Ray Serve 2.60 (``serveConfigV2``, ``ray.serve.llm``) and the values of
vLLM's production-stack (helm/templates/deployment-vllm-multi.yaml).
"""

import json
from collections.abc import Iterator, Mapping
from itertools import pairwise

from service.formats.command_words import split_words
from service.formats.launches.sources.cloud_tasks import list_cloud_tasks
from service.formats.launches.sources.containers import (
    Container,
    Pod,
    find_release,
    list_document_containers,
    split_documents,
)
from service.formats.launches.sources.documents import read_mapping

_Json = Mapping[str, object]
_SERVE = ("vllm", "serve")
_HUB = "hf://"
_FORMATS = frozenset({"huggingface", "vllm"})
_BACKEND = "--backend"
_LMCACHE = '{"kv_connector": "LMCacheConnectorV1"}'
_OF_SERVER = ("--model_name", "--model_id", "--model_dir", "--model-name", "--model-id", _BACKEND)
"""Options of KServe's server, which its vLLM is not told (python/huggingfaceserver)."""
_PARALLELISM = {
    "tensor": "--tensor-parallel-size",
    "pipeline": "--pipeline-parallel-size",
    "data": "--data-parallel-size",
    "dataLocal": "--data-parallel-size-local",
}
_WORKERS = {
    "tensorParallelSize": "--tensor-parallel-size",
    "pipelineParallelSize": "--pipeline-parallel-size",
}
"""Keys of a predictor's ``workerSpec``, whose pods are one engine with the predictor's."""
_VALUES = {
    "maxModelLen": "--max-model-len",
    "dtype": "--dtype",
    "tensorParallelSize": "--tensor-parallel-size",
    "pipelineParallelSize": "--pipeline-parallel-size",
    "maxNumSeqs": "--max-num-seqs",
    "gpuMemoryUtilization": "--gpu-memory-utilization",
    "maxLoras": "--max-loras",
}
"""Keys of production-stack's ``vllmConfig``."""


def list_containers(name: str, text: str) -> Iterator[Container]:
    """Yield the containers of a manifest that run something."""
    for part in split_documents(text):
        document = read_mapping(name, part)
        tasks = list_cloud_tasks(document)
        engines = tasks or list_engines(name, document)
        yield from engines or list_document_containers(name, document)


def list_engines(name: str, document: _Json) -> list[Container]:
    """Return the engines that an object describes, if any."""
    kind, spec = document.get("kind"), _get_object(document, "spec")
    if kind == "InferenceService":
        return list(_iter_predictors(_get_object(spec, "predictor")))
    if kind == "LLMInferenceService":
        return list(_iter_services(spec))
    if kind == "RayService":
        text = spec.get("serveConfigV2")
        applications = read_mapping(name, text) if isinstance(text, str) else {}
        return list(_iter_applications(applications))
    if kind is None and "applications" in document:
        return list(_iter_applications(document))
    return list(_iter_releases(_get_object(document, "servingEngineSpec")))


def _iter_predictors(predictor: _Json) -> Iterator[Container]:
    """Yield the engine of a predictor with a model's format."""
    model = _get_object(predictor, "model")
    format_name = str(_get_object(model, "modelFormat").get("name", "")).casefold()
    if format_name not in _FORMATS:
        return
    arguments = [part for word in _list_texts(model, "args") for part in word.split("=", 1)]
    options = dict(pairwise([*arguments, ""]))
    if options.get(_BACKEND) == "huggingface":
        return
    named = options.get("--model_id") or options.get("--model-id")
    source = named or _name_model(str(model.get("storageUri", "")))
    tokens = [*_SERVE, *([source] if source else [])]
    skips = False
    for word in arguments:
        if word in _OF_SERVER:
            skips = True
        elif skips and not word.startswith("--"):
            skips = False
        else:
            skips = False
            tokens.append(word)
    worker = _get_object(predictor, "workerSpec")
    for key, option in _WORKERS.items():
        if key in worker and option not in options:
            tokens += [option, str(worker[key])]
    yield Container(
        tokens=tuple(tokens),
        environment=_list_variables(model),
        pod=Pod(container=model, spec=predictor, is_single="workerSpec" not in predictor),
    )


def _iter_services(spec: _Json) -> Iterator[Container]:
    """Yield the engines of a service; prompts may have one."""
    for part in (spec, _get_object(spec, "prefill")):
        template = _get_object(part, "template")
        containers = _list_objects(template, "containers")
        container = next((entry for entry in containers if entry.get("name") == "main"), {})
        parallelism = _get_object(part, "parallelism")
        if part is not spec and not (container or parallelism):
            continue
        if container.get("command"):
            continue  # It is read as any container is.
        model = _name_model(str(_get_object(spec, "model").get("uri", "")))
        tokens = [*_SERVE, model]
        for key, option in _PARALLELISM.items():
            if key in parallelism:
                tokens += [option, str(parallelism[key])]
        if parallelism.get("expert") is True:
            tokens.append("--enable-expert-parallel")
        variables = _list_variables(container)
        additional = variables.pop("VLLM_ADDITIONAL_ARGS", "")
        tokens += [*_list_texts(container, "args"), *_split(additional)]
        pod = Pod(container=container, spec=template, is_single="worker" not in part)
        yield Container(tokens=tuple(tokens), environment=variables, pod=pod)


def _iter_applications(document: _Json) -> Iterator[Container]:
    """Yield the engines of Ray Serve's applications."""
    for application in _list_objects(document, "applications"):
        for config in _list_objects(_get_object(application, "args"), "llm_configs"):
            loading = _get_object(config, "model_loading_config")
            source = loading.get("model_source", loading.get("model_id"))
            tokens = [*_SERVE, *([source] if isinstance(source, str) else [])]
            for key, value in _get_object(config, "engine_kwargs").items():
                tokens += _spell_option(key, value)
            gpu = config.get("accelerator_type")
            selector = {} if gpu is None else {"nvidia.com/gpu.product": str(gpu)}
            variables = _get_object(_get_object(config, "runtime_env"), "env_vars")
            yield Container(
                tokens=tuple(tokens),
                environment={key: str(value) for key, value in variables.items()},
                pod=Pod(container={}, spec={"nodeSelector": selector}, is_single=False),
            )


def _iter_releases(engines: _Json) -> Iterator[Container]:
    """Yield the engines of a release of production-stack."""
    for model in _list_objects(engines, "modelSpec"):
        config = _get_object(model, "vllmConfig")
        tokens = [*_SERVE, str(model.get("modelURL", ""))]
        if model.get("enableLoRA"):
            tokens.append("--enable-lora")
        for key, option in _VALUES.items():
            if key in config:
                tokens += [option, str(config[key])]
        if "enableChunkedPrefill" in config:
            prefix = "" if config["enableChunkedPrefill"] else "no-"
            tokens.append(f"--{prefix}enable-chunked-prefill")
        tokens += _list_texts(config, "extraArgs")
        if _get_object(model, "lmcacheConfig").get("enabled"):
            tokens += ["--kv-transfer-config", _LMCACHE]
        variables = _list_variables(model)
        if str(config.get("v0")) == "1":
            variables["VLLM_USE_V1"] = "0"
        resource = str(model.get("requestGPUType") or "nvidia.com/gpu")
        limits = {resource: model["requestGPU"]} if "requestGPU" in model else {}
        yield Container(
            tokens=tuple(tokens),
            version=find_release(str(model.get("tag", ""))),
            environment=variables,
            pod=Pod(
                container={"resources": {"limits": limits}},
                spec=_place(model),
                is_single="raySpec" not in model,
            ),
        )


def _place(model: _Json) -> _Json:
    """Return the nodes of a model as a pod says them."""
    required = {"nodeSelectorTerms": model.get("nodeSelectorTerms")}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": required}
    return {
        "nodeSelector": model.get("nodeSelector"),
        "affinity": {"nodeAffinity": affinity},
    }


def _name_model(uri: str) -> str:
    """Return a model's name on the hub, else its address."""
    if not uri.startswith(_HUB):
        return uri
    return uri.removeprefix(_HUB).split(":")[0].split("@")[0]


def _spell_option(key: str, value: object) -> list[str]:
    """Return a keyword argument as words of the command."""
    name = key.replace("_", "-")
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    if value is None:
        return []
    text = json.dumps(value) if isinstance(value, Mapping | list) else str(value)
    return [f"--{name}", text]


def _split(text: str) -> list[str]:
    try:
        return split_words(text)
    except ValueError:
        return text.split()


def _list_variables(part: _Json) -> dict[str, str]:
    return {
        str(entry.get("name")): str(entry["value"])
        for entry in _list_objects(part, "env")
        if "value" in entry
    }


def _get_object(part: _Json, name: str) -> _Json:
    value = part.get(name)
    return value if isinstance(value, Mapping) else {}


def _list_objects(part: _Json, name: str) -> list[_Json]:
    value = part.get(name)
    entries = value if isinstance(value, list) else []
    return [entry for entry in entries if isinstance(entry, Mapping)]


def _list_texts(part: _Json, name: str) -> list[str]:
    value = part.get(name)
    return [str(entry) for entry in value] if isinstance(value, list) else []
