"""Scripts that have no page of their own: what they return, asked in a browser since nothing else
runs them.
"""

import json
import string
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import Visit
from tests.browser.scripts import called

NODE = {
    "name": "n1",
    "state": "ready",
    "allocated_gpus": 4,
    "allocations": [{"holder": "a", "num_gpus": 4, "gpu_indices": None, "host_memory_bytes": 0}],
    "mig_gpus": 0,
    "mig_slices": [],
}
POOL = {
    "name": "p",
    "gpu": "L40S",
    "gpus_per_node": 8,
    "host_memory_bytes": 2**39,
    "num_nodes": None,
    "nodes": [NODE],
}
CHANGES: tuple[tuple[dict[str, Any], dict[str, Any], list[str]], ...] = (
    ({"host_memory_bytes": "512Gi"}, {}, []),
    ({"host_memory_bytes": "256Gi"}, {}, ["pool p, host_memory_bytes: 549755813888 → 256Gi"]),
    ({"nvme_bytes": 1}, {}, ["pool p, nvme_bytes: not told → 1"]),
    ({"network_bytes_per_second": 1}, {}, ["pool p, network_bytes_per_second: not told → 1"]),
    ({}, {"allocations": [{"holder": "b", "num_gpus": 4}]}, ["node n1, holders: a 4 → b 4"]),
    ({}, {"mig_gpus": 2}, ["node n1, MIG: 0 GPUs in slices → 2 GPUs in slices"]),
)
NO_INVENTORIES = (
    ("", "no inventory yet"),
    ("{", "no JSON"),
    ("null", "an object with a name and pools"),
    ('{"name": "x"}', "no list of pools"),
    ('{"name": "x", "pools": []}', "no list of pools"),
    ('{"name": "x", "pools": [null]}', "pool 1 is no object"),
    ('{"name": "x", "pools": [5]}', "pool 1 is no object"),
    ('{"name": "x", "pools": [{"name": "p", "nodes": [null]}]}', "pool 1, node 1 is no object"),
    (
        '{"name": "x", "pools": [{"name": "p", "nodes": [{"name": "n", "allocations": 5}]}]}',
        "list of allocations",
    ),
    ('{"pools": [{"name": "p"}]}', "no name"),
)

HANDED_IN: tuple[tuple[str, bool, str | None], ...] = (
    ("vllm serve gpt2", False, None),
    ("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True torchrun train.py", False, None),
    ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB.", True, None),
    ("slurmstepd: error: Detected 1 oom_kill event in StepId=7.batch.", True, None),
    ("base_model: gpt2\nmicro_batch_size: 2 # else out of memory\n", False, "pasted.yaml"),
    ("# or it runs out of memory\nbase_model: gpt2\nadapter: lora\n", False, "pasted.yaml"),
    ("- a: 1\n  b: 2", False, "pasted.yaml"),
    ('{"zero_optimization": {"stage": 3}, "why": "out of memory"}', False, "pasted.json"),
    ('{"state": {"terminated": {"reason": "OOMKilled"}}}', True, None),
    ("#!/bin/bash\nsrun python train.py", False, "pasted.sh"),
    ("from unsloth import FastLanguageModel\n", False, "pasted.py"),
)


@pytest.fixture
def page(visit: Visit) -> Page:
    """Return a page that scripts can be read from."""
    return visit("/accuracy").page


def test_every_change_of_an_inventory_is_found(page: Page) -> None:
    """What a pool or node says differently is a change, and the same memory in other words is
    none.
    """
    for pool, node, expected in CHANGES:
        pasted = {**POOL, **pool, "nodes": [{**NODE, **node}]}
        found = called(page, "clusters/diff.js", "differences", [POOL], [pasted])
        assert [f"{one['what']}: {one['change']}" for one in found] == expected


def test_what_is_no_inventory_is_told(page: Page) -> None:
    """Each says what is wrong and where; one that is whole says its name and pools."""
    for text, said in NO_INVENTORIES:
        assert said in called(page, "clusters/inventory.js", "inventoryIn", text, None)["problem"]
    whole = '{"pools": [{"name": "p", "num_nodes": 1}]}'
    assert called(page, "clusters/inventory.js", "inventoryIn", whole, "x") == {
        "name": "x",
        "pools": [{"name": "p", "num_nodes": 1}],
    }


def test_what_was_handed_in_is_told_apart(page: Page) -> None:
    """A failure from a launch that speaks of one, and a file's text from a command."""
    for text, is_failure, name in HANDED_IN:
        assert called(page, "explore/kinds.js", "isFailure", text) is is_failure, text
        if not is_failure:
            assert called(page, "explore/kinds.js", "nameOfPasted", text) == name, text


def test_a_name_is_no_markdown(page: Page) -> None:
    """What a stranger called a model is no link, picture, tag, cell or line of a ticket."""
    hostile = "a](//e.example) ![x](//e.example) <img> | `b` **c**\r\n# d"

    text = called(page, "export.js", "plain", hostile)
    table = called(page, "export.js", "markdownTable", ["name"], [[hostile]])

    assert text == r"a\](//e.example) \!\[x\](//e.example) \<img\> \| \`b\` \*\*c\*\* # d"
    assert table == f"| name |\n| --- |\n| {text} |"


def test_a_pasted_document_is_sent_as_what_it_is(page: Page) -> None:
    """A recording names a type as a config does, and is none."""
    recording = {"model_type": "helium", "model_class": "HeliumForCausalLM", "passes": {}}
    documents = {
        "hf_config": {"model_type": "llama"},
        "gguf": {"metadata": {}, "tensors": []},
        "recording": recording,
    }

    for kind, document in documents.items():
        assert called(page, "explore/question.js", "brought", document) == {kind: document}
    name = called(page, "explore/verdict.js", "modelName", {"model": {"recording": recording}})
    assert name == "your helium"


def test_a_key_is_what_a_header_carries(page: Page) -> None:
    """A dash that a chat made longer, an ellipsis and a space are no parts of a key."""
    keys = {
        "hr_74260e60fc1e_a-b_C": True,
        "hr_74260e60fc1e_…": False,
        "hr_1\u20132": False,
        "hr_ 1": False,
        "": False,
    }

    assert {key: called(page, "key.js", "isKey", key) for key in keys} == keys


def test_a_question_is_placed_as_it_was_asked(page: Page) -> None:
    """What it leaves out stays at the API's default, not at that of the page it goes to."""
    train = {"task": "train", "sequence_lengths": {"512": 1}, "micro_batch_size": 2}
    serve = {"task": "serve", "num_sequences": 8, "prompt_tokens": 64}

    placed = [
        dict(
            parse_qsl(
                called(page, "explore/onward.js", "placeQuery", question), keep_blank_values=True
            )
        )
        for question in ({"model": "gpt2", "workload": train}, {"model": {}, "workload": serve})
    ]

    more = placed[0].pop("more")
    assert json.loads(more) == {"sequence_lengths": {"512": 1}, "micro_batch_size": 2}
    served = {"engine": "transformers", "output_tokens": "0"}
    assert placed == [
        {"model": "gpt2", "task": "train", "method": "full", "sequence_length": ""},
        {"model": "", "task": "serve", "num_sequences": "8", "prompt_tokens": "64"} | served,
    ]


def test_a_gpu_of_ones_own_is_written_exactly(page: Page) -> None:
    """Memory is written in the largest unit that loses nothing; a name stays."""
    sizes = {80 * 2**30: "80Gi", 81_921 * 2**20: "81921Mi", 85_899_345_921: "85899345921"}

    assert called(page, "explore/question.js", "gpuText", "L40S") == "L40S"
    for size, text in sizes.items():
        assert called(page, "explore/question.js", "gpuText", {"memory_bytes": size}) == text


def test_what_goes_along_with_a_link_comes_back(page: Page) -> None:
    """Any text survives, however long; nothing is no letters, and letters that hold nothing of ours
    are refused.
    """
    extra = {"config": '{"model_type": "gpt2", "\u00fc\U0001f600": 1}' * 5_000}
    script = """async ([extra, bad]) => {
      const root = document.querySelector("script[type=module]").src.replace(/js\\/.*/, "js/explore/");
      const { packed, unpacked } = await import(root + "fragment.js");
      const { makeAddress } = await import(root + "address.js");
      const letters = await packed(extra);
      const refused = [];
      for (const one of [letters.slice(0, -9), "#with=", "#with=*", ...(await Promise.all(bad.map(packed)))]) {
        history.replaceState(null, "", one);
        await makeAddress({ onPacked: () => {} }).read().catch((error) => refused.push(error.title));
      }
      return [await packed({}), letters, await unpacked(letters, () => true), refused];
    }"""  # noqa: E501
    bad = [
        {"kept": 5},
        {"kept": [{"model": "x"}]},
        {"config": 1},
        {"kept": [{"model": "x", "gpu": None, "workload": {}}]},
    ]
    nothing, letters, back, refused = page.evaluate(script, [extra, bad])

    assert (nothing, back) == ("", extra)
    assert set(letters) <= set(f"#={string.ascii_letters}{string.digits}-_")
    assert refused == ["This link is not whole"] * 7


def test_a_slow_look_takes_nothing_back(page: Page) -> None:
    """What a later look told stays, whatever an earlier one ends with; the next in order mends
    it.
    """
    script = """async () => {
      const root = document.querySelector("script[type=module]").src.replace(/js\\/.*/, "js/");
      const { repeat } = await import(root + "polling.js");
      const looks = [];
      const told = [];
      const f = () => new Promise((resolve, reject) => looks.push({ resolve, reject }));
      const settled = () => new Promise((resolve) => setTimeout(resolve));
      const again = () => document.dispatchEvent(new Event("visibilitychange"));
      repeat(f, 1e9, (error) => told.push(error), () => told.push("mended"));
      again();
      looks[1].reject("away");
      await settled();
      looks[0].resolve();
      await settled();
      const after = [...told];
      again();
      looks[2].resolve();
      await settled();
      return [after, told];
    }"""

    assert page.evaluate(script) == [["away"], ["away", "mended"]]


def test_a_time_range_frees_what_ends_in_it(page: Page) -> None:
    """A reservation that ends gives its GPUs back, those of a drained node stay drained."""
    pool = {
        "name": "p",
        "gpus_per_node": 4,
        "nodes": [_ready("a", "ready"), _ready("b", "drained")],
        "free_gpus": 1,
        "reserved_gpus": 5,
        "drained_gpus": 2,
        "total_gpus": 8,
    }
    now = 1_760_000_000_000
    reservations = [
        _reserved("a", 3, now + 3_600_000),
        _reserved("b", 2, now + 7_200_000),
    ]

    def foresee(hours: str) -> tuple[int, ...]:
        found = called(page, "clusters/range.js", "foresee", [pool], reservations, hours, now)
        (seen,) = found["pools"]
        return (len(found["ending"]), *(seen[f"{kind}_gpus"] for kind in _KINDS))

    assert foresee("") == (0, 1, 5, 2)
    assert foresee("1") == (1, 4, 2, 2)
    assert foresee("24") == (2, 4, 0, 4)


_KINDS = ("free", "reserved", "drained")


def _ready(name: str, state: str) -> dict[str, object]:
    return {
        "name": name,
        "state": state,
        "allocated_gpus": 0,
        "allocations": [],
        "mig_gpus": 0,
        "mig_slices": [],
    }


def _reserved(node: str, num_gpus: int, until_ms: int) -> dict[str, object]:
    share = {
        "pool": "p",
        "node": node,
        "num_gpus": num_gpus,
        "gpu_indices": None,
        "mig_profile": None,
    }
    ends = datetime.fromtimestamp(until_ms / 1000, tz=UTC).isoformat()
    return {"holder": "team", "gpus": [share], "expires_at": ends}


def test_clusters_of_a_range_are_those_that_were_updated_in_it(page: Page) -> None:
    """An inventory that nobody sent for a day is left out of the last hour."""
    clusters = [{"updated_at": "2026-01-02T00:30:00Z"}, {"updated_at": "2026-01-01T00:00:00Z"}]
    now = datetime(2026, 1, 2, 1, tzinfo=UTC).timestamp() * 1000

    found = [
        len(called(page, "clusters/range.js", "updatedIn", clusters, hours, now))
        for hours in ("", "1", "168")
    ]

    assert found == [2, 1, 2]
