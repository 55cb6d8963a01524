"""``generate`` as probes call it: which tokens each pass reads."""

from typing import Any

import pytest
import torch

from service.estimator.values.generation import Client
from service.estimator.values.workload import ServeWorkload
from tests.tiny_models import tiny_config
from worker.probes.attention.names import Kernel
from worker.probes.run import serving
from worker.probes.run.serving import make_server, serve

PROMPT, ANSWER = 12, 6
WORKLOAD = ServeWorkload(
    num_sequences=2, prompt_tokens=PROMPT, output_tokens=ANSWER, client=Client.GENERATE
)


@pytest.mark.parametrize("family", ["mamba", "mamba2", "falcon_mamba", "llama"])
def test_the_steps_after_growth_read_a_token_each(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache that grew is read: no step after it runs the prompt again."""
    monkeypatch.setattr(serving, "mark", lambda _: None)
    config = tiny_config(family)
    layers = range(int(str(config["num_hidden_layers"])))
    server = make_server(config, WORKLOAD, layers=layers, kernel=Kernel.MATH)
    read: list[int] = []

    def note_tokens(_module: torch.nn.Module, _args: object, inputs: dict[str, Any]) -> None:
        read.append(inputs["input_ids"].shape[1])

    server.model.register_forward_pre_hook(note_tokens, with_kwargs=True)
    serve(
        server,
        num_sequences=2,
        prompt_tokens=PROMPT,
        output_tokens=ANSWER,
        on_step=lambda _: None,
    )

    grown = ANSWER - 1 - 2
    assert read == [PROMPT, grown, 1, 1]
