"""Launches of serving engines as questions, without a server."""

from collections.abc import Mapping
from typing import Any

from service.cli.offline.inline import resolve_offline_model
from service.contract.schemas.fit import FitRequest
from service.contract.schemas.imports.launches import LaunchImportRequest
from service.contract.to_question.fits import read_fit
from service.contract.to_question.launches import LaunchQuestion, read_launch_request
from service.contract.to_question.validation_errors import decode
from service.estimator.values.workload import ServeWorkload
from service.formats.renderings.job import Job
from service.formats.renderings.render import make_launch
from service.usecases.questions.fit import FitQuestion

GPU = "A100-SXM4-80GB"
LOAD = {"num_sequences": 64, "prompt_tokens": 1536, "output_tokens": 512}


def ask(**request: object) -> LaunchQuestion:
    """Return the question of a request."""
    return read_launch_request(decode(request, LaunchImportRequest), resolve_offline_model)


def ask_command(command: str, **request: object) -> LaunchQuestion:
    """Return the question of a command."""
    return ask(command=command, **request)


def get_workload(question: LaunchQuestion) -> Mapping[str, Any]:
    """Return the workload of a question, as it was read."""
    workload: Mapping[str, Any] = question.document["workload"]  # type: ignore[assignment]
    return workload


def get_layout(question: LaunchQuestion) -> Mapping[str, Any]:
    """Return the layout of a question, as it was read."""
    layout: Mapping[str, Any] = question.document.get("layout", {})  # type: ignore[assignment]
    return layout


def read_back(job: Job, layout: Mapping[str, int] | None = None) -> FitQuestion:
    """Return the question of a job's rendered launch, with the load that no launch says.

    ``layout`` is what the launch leaves open of it.
    """
    launch, workload = make_launch(job), job.workload
    assert isinstance(workload, ServeWorkload)
    question = ask(
        model=job.model_name,
        gpu=GPU,
        layout=layout or {},
        command=list(launch.command),
        files=[{"name": name, "content": text} for name, text in launch.files.items()],
        workload={
            "num_sequences": workload.num_sequences,
            "prompt_tokens": workload.prompt_tokens,
            "output_tokens": workload.output_tokens,
        },
    )
    assert (question.missing, question.refusal) == ((), None)
    request = decode(question.document, FitRequest)
    return read_fit(request, resolve_offline_model(request.model))
