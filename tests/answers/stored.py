"""What is stored: models, clusters, reservations, keys, measurements, each after the one before.

These are asked one at a time: each answer depends on what was written by the ones before it.
"""

from collections.abc import Iterator
from typing import Any

from tests.answers.questions import IN_ORDER, REFRESHED_S, Json, Question, post, words

MODELS, CLUSTERS, KEYS = "/v1/models", "/v1/clusters", "/v1/keys"
MEASUREMENTS, PLANS, FIT = "/v1/measurements", "/v1/plans", "/v1/fit"
ID = r'"id": ?"([0-9a-f-]{36})"'
ETAG = r"(?m)^etag: (.+)$"
TINY: Json = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "vocab_size": 256,
    "max_position_embeddings": 128,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
}
_TRAIN: Json = {"task": "train", "sequence_length": 64}
_NODES: list[Json] = [
    {"name": "n1"},
    {"name": "n2", "allocations": [{"holder": "vision", "num_gpus": 3, "gpu_indices": [0, 1, 2]}]},
    {"name": "n3", "state": "drained"},
    {"name": "n4", "mig_gpus": 2, "mig_slices": [{"profile": "1g.10gb", "total": 14}]},
]
_POOL: Json = {
    "name": "a100",
    "gpu": "A100-SXM4-80GB",
    "gpus_per_node": 8,
    "host_memory_bytes": "1Ti",
    "nvme_bytes": "4Ti",
    "nodes": _NODES,
}
_SIMPLE: Json = {"name": "h200", "gpu": "H200", "gpus_per_node": 8, "num_nodes": 4}


def write(method: str, path: str, body: object = None, *, group: str, **more: Any) -> Question:  # noqa: ANN401
    """Return a question that is asked in its order."""
    if body is None:
        return Question(group=group, method=method, path=path, when=IN_ORDER, **more)
    made = post(group, path, body, when=IN_ORDER, **more)
    return made if method == "POST" else _as(made, method)


def stored() -> Iterator[Question]:
    """Yield every question about what is stored, writes and reads in turn."""
    yield from _models()
    yield from _clusters()
    yield from _reservations()
    yield from _placed()
    yield from _measurements()
    yield from _keys()
    yield write("GET", "/v1/audit?limit=200", group="/v1/audit", pause_s=REFRESHED_S)
    yield write(
        "GET",
        "/v1/audit?limit=3",
        group="/v1/audit",
        captures={"older": r'"next_cursor": ?"([^"]+)'},
    )
    yield write("GET", "/v1/audit?limit=3&cursor=<<older>>", group="/v1/audit")
    yield write("GET", "/v1/audit?limit=0", group="/v1/audit")


def _as(question: Question, method: str) -> Question:
    return Question(**question.as_json() | {"method": method})


def _models() -> Iterator[Question]:
    def source(**changes: object) -> Json:
        return {"source": {"hf_config": TINY | changes}}

    def ask(method: str, path: str, body: object = None, **more: Any) -> Question:  # noqa: ANN401
        return write(method, path, body, group=MODELS, **more)

    path = f"{MODELS}/tiny"
    yield ask("POST", MODELS, {"name": "tiny", **source()}, captures={"tiny_tag": ETAG})
    yield ask("POST", MODELS, {"name": "tiny", **source()})
    yield ask("GET", path)
    yield ask("GET", path, headers={"if-none-match": "<<tiny_tag>>"})
    yield ask("PUT", path, source(num_hidden_layers=4))
    yield ask("PUT", path, source(num_hidden_layers=4), headers={"if-match": '"stale"'})
    yield ask("PUT", path, source(num_hidden_layers=4), headers={"if-match": "<<tiny_tag>>"})
    yield ask("PUT", path, {"name": "other", **source()}, headers={"if-match": "*"})
    yield from (ask("GET", f"{path}?revision={number}") for number in (1, 2, 3, 0))
    body = {"model": "tiny", "gpu": "L4", "workload": _TRAIN}
    yield write("POST", FIT, body, group=f"{FIT} stored", pause_s=REFRESHED_S)
    config: Json = {"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 2}
    index = {"metadata": {"total_size": 1000}, "weight_map": {"a.weight": "model.safetensors"}}
    header = {"a.weight": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}
    sources: list[Json] = [{"hf_config": config}, {"architecture": {}}, {}, {"hf_config": {}}]
    sources += [{"hf_config": {"model_type": "nobody"}}, {"hf_config": {**config, "x": "\0"}}]
    sources += [{"hf_config": config, "safetensors_index": index}]
    sources += [{"hf_config": config, "safetensors_header": header}, {"hf_config": {"n_embd": 63}}]
    for kind in words("t5 bert mamba mixtral qwen3_moe gemma2 phi3 whisper clip vit opt falcon"):
        sources.append({"hf_config": {"model_type": kind}})
    for number, made in enumerate(sources):
        yield ask("POST", MODELS, {"name": f"m{number}", "source": made})
    yield from (
        ask("POST", MODELS, {"name": name, **source()}) for name in ("", "a b", "gpt2", "a/b/c")
    )
    yield ask("GET", f"{MODELS}?limit=20")
    yield ask("DELETE", path)
    yield ask("DELETE", path, headers={"if-match": "<<tiny_tag>>"})
    yield ask("DELETE", f"{MODELS}/gpt2", headers={"if-match": "*"})
    yield ask("DELETE", f"{MODELS}/m0", headers={"if-match": "*"})
    yield ask("GET", f"{MODELS}/m0")


def _clusters() -> Iterator[Question]:
    def ask(method: str, path: str, body: object = None, **more: Any) -> Question:  # noqa: ANN401
        return write(method, path, body, group=CLUSTERS, **more)

    path = f"{CLUSTERS}/prod-a"
    yield ask("POST", CLUSTERS, {"name": "prod-a", "pools": [_POOL]}, captures={"prod_tag": ETAG})
    yield ask("POST", CLUSTERS, {"name": "prod-a", "pools": [_POOL]})
    yield ask(
        "POST", CLUSTERS, {"name": "lab", "pools": [_SIMPLE, {**_POOL, "price_per_gpu_hour": 2}]}
    )
    yield from (ask("GET", one) for one in (path, f"{CLUSTERS}/lab", f"{CLUSTERS}/none", CLUSTERS))
    yield from (ask("GET", f"{CLUSTERS}?{more}") for more in ("nodes=false", "limit=1", "cursor=x"))
    changes: list[Json] = [{"gpu": "A100"}, {"gpus_per_node": 0}, {"nodes": []}, {"num_nodes": 2}]
    changes += [{"host_memory_bytes": "1TB"}, {"nodes": [{"name": "a"}, {"name": "a"}]}, {"x": 1}]
    changes += [{"nodes": [{"name": "a", "allocated_gpus": 9}]}, {"nvlink_island_size": 3}]
    for change in changes:
        yield ask("POST", CLUSTERS, {"name": "bad", "pools": [{**_POOL, **change}]})
    yield ask("POST", CLUSTERS, {"name": "bad", "pools": []})
    yield ask("PUT", path, {"pools": [_POOL]})
    yield ask("PUT", path, {"pools": [_POOL]}, headers={"if-match": '"stale"'})
    yield ask("PUT", path, {"pools": [_POOL, _SIMPLE]}, headers={"if-match": "<<prod_tag>>"})
    yield ask("DELETE", path, headers={"if-match": "<<prod_tag>>"})


def _reservations() -> Iterator[Question]:
    path = f"{CLUSTERS}/prod-a/reservations"

    def ask(method: str, more_path: str = "", body: object = None, **more: Any) -> Question:  # noqa: ANN401
        return write(method, path + more_path, body, group=f"{CLUSTERS} reservations", **more)

    def held(*shares: Json, **changes: object) -> Json:
        return {"holder": "alice", "gpus": list(shares), "expires_in_s": 86400} | changes

    four = {"pool": "a100", "node": "n1", "num_gpus": 4}
    once = {"idempotency-key": "once"}
    yield ask("POST", body=held(four), headers=once, captures={"held": ID, "held_tag": ETAG})
    yield ask("POST", body=held(four), headers=once)
    yield ask("POST", body=held(four, holder="bob"), headers=once)
    yield ask("POST", body=held({**four, "num_gpus": 6}))
    yield ask("POST", body=held({"pool": "h200", "num_gpus": 12}), captures={"many": ID})
    mig = {"pool": "a100", "node": "n4", "num_gpus": 2, "mig_profile": "1g.10gb"}
    yield ask("POST", body=held(mig))
    yield ask("POST", body=held({**four, "node": "n2", "num_gpus": 2, "gpu_indices": [0, 4]}))
    wrong: list[Json] = [held(), held(four, expires_in_s=0), held({**four, "pool": "x"}), {}]
    wrong += [held({**four, "node": "n9"}), held({**four, "num_gpus": 0}), held(four, holder="")]
    wrong += [held(four, expires_at="x"), held({**four, "host_memory_bytes": "9Ti"})]
    for body in wrong:
        yield ask("POST", body=body)
    yield from (ask("GET", more) for more in ("", "?limit=1", "/<<held>>", "/none", "/<<many>>"))
    yield write("GET", f"{CLUSTERS}/prod-a", group=CLUSTERS)
    yield write("DELETE", f"{CLUSTERS}/prod-a", group=CLUSTERS, headers={"if-match": "*"})
    yield ask("DELETE", "/<<held>>")
    yield ask("DELETE", "/<<held>>", headers={"if-match": '"stale"'})
    yield ask("DELETE", "/<<held>>", headers={"if-match": "<<held_tag>>"})
    yield ask("GET", "/<<held>>")
    yield ask("POST", body=held(four), headers=once)


def _placed() -> Iterator[Question]:
    serve = {"task": "serve", "engine": "vllm", "num_sequences": 16, "prompt_tokens": 1024}
    long: Json = {"task": "train", "sequence_length": 4096}
    lora = {**long, "method": "lora", "precision": "bf16"}
    for cluster in ("prod-a", "lab", "none"):
        for model in ("llama-3.2-1b", "llama-3.1-8b", "llama-3.1-70b", "mixtral-8x7b"):
            for workload in (serve, long, lora):
                body: Json = {"model": model, "cluster": cluster, "workload": workload}
                if workload is lora:
                    body |= {"objective": "cheapest", "pareto": True}
                yield write("POST", PLANS, body, group=f"{PLANS} on clusters")
    path = f"{CLUSTERS}/lab"
    yield write(
        "DELETE", f"{path}?end_reservations=true", group=CLUSTERS, headers={"if-match": "*"}
    )
    yield write("GET", CLUSTERS, group=CLUSTERS)


def _measurements() -> Iterator[Question]:
    def ask(method: str, path: str, body: object = None, **more: Any) -> Question:  # noqa: ANN401
        return write(method, path, body, group=MEASUREMENTS, **more)

    base: Json = {"model": "gpt2", "device": "trace", "workload": _TRAIN}
    for model in ("gpt2", "llama-3.1-8b", "mixtral-8x7b", "t5-small", "mamba-130m"):
        for device in ("trace", "cpu", "cuda"):
            long = {"task": "train", "sequence_length": 512, "precision": "bf16"}
            body = {"model": model, "device": device, "workload": long, "dry_run": True}
            yield ask("POST", MEASUREMENTS, body)
    wrong: list[Json] = [
        {},
        {**base, "device": "tpu"},
        {**base, "priority": "x"},
        {**base, "rank": 9},
    ]
    wrong += [{**base, "artifacts": ["x"]}, {**base, "gpu": "A100"}, {**base, "model": "none"}]
    wrong += [{**base, "device": "cpu", "artifacts": ["memory_snapshot"]}, {**base, "x": 1}]
    for body in wrong:
        yield ask("POST", MEASUREMENTS, body)
    key = {"idempotency-key": "job"}
    yield ask("POST", MEASUREMENTS, {**base, "gpu": "L4"}, headers=key, captures={"job": ID})
    yield ask("POST", MEASUREMENTS, {**base, "gpu": "L4"}, headers=key)
    yield ask("POST", MEASUREMENTS, base, headers=key)
    path = f"{MEASUREMENTS}/<<job>>"
    yield ask("POST", f"{path}/withdraw")
    yield ask("GET", path)
    yield ask("DELETE", path)
    yield ask("DELETE", path)
    for more in ("", "/events", "/samples", "/artifacts/memory_snapshot", "/artifacts/x"):
        yield ask("GET", path + more)
    yield ask("GET", f"{path}/events", headers={"last-event-id": "2"})
    yield ask("GET", f"{path}/events", headers={"last-event-id": "1"})
    for more in ("", "/events", "/samples", "/artifacts/memory_snapshot"):
        yield ask("GET", f"{MEASUREMENTS}/none{more}")


def _keys() -> Iterator[Question]:
    def ask(method: str, path: str, body: object = None, **more: Any) -> Question:  # noqa: ANN401
        return write(method, path, body, group=KEYS, **more)

    secret = {"reader": r'"key": ?"(hr_[^"]+)"', "reader_id": ID}
    yield ask("POST", KEYS, {"name": "reader", "scopes": ["read"]}, captures=secret)
    slow = {"name": "slow", "scopes": ["plan"], "rate": "1/day", "expires_in_s": 7776000}
    yield ask("POST", KEYS, slow, captures={"slow": r'"key": ?"(hr_[^"]+)"'})
    wrong: list[Json] = [{}, {"name": "a", "scopes": []}, {"name": "a", "scopes": ["all"]}]
    wrong += [{**slow, "rate": "often"}, {**slow, "expires_in_s": 0}, {**slow, "quota": "x"}]
    for body in wrong:
        yield ask("POST", KEYS, body)
    question = {"model": "gpt2", "gpu": "L4", "workload": _TRAIN}
    reader, bearer = {"x-api-key": "<<reader>>"}, {"authorization": "Bearer <<slow>>"}
    yield ask("GET", MODELS + "/gpt2", headers=reader, pause_s=REFRESHED_S)
    yield ask("POST", FIT, question, headers=reader)
    yield ask("POST", FIT, question, headers={"x-api-key": "hr_nobody"})
    yield ask("POST", FIT, question, headers={"authorization": "Basic eA=="})
    yield ask("POST", FIT, question, headers=bearer)
    yield ask("POST", FIT, question, headers=bearer)
    yield ask("GET", KEYS)
    yield ask("DELETE", f"{KEYS}/<<reader_id>>")
    yield ask("DELETE", f"{KEYS}/none", pause_s=REFRESHED_S)
    yield ask("GET", MODELS + "/gpt2", headers=reader, pause_s=REFRESHED_S)
    yield ask("GET", f"{KEYS}?limit=1", pause_s=REFRESHED_S)
