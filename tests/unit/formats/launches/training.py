"""Launches of pretraining as questions, and rendered ones read back."""

from service.cli.offline.inline import resolve_offline_model
from service.contract.schemas.fit import FitRequest
from service.contract.to_question.fits import read_fit
from service.contract.to_question.validation_errors import decode
from service.formats.renderings.job import Job
from service.formats.renderings.render import make_launch
from service.usecases.questions.fit import FitQuestion
from tests.unit.formats.launches.asking import GPU, ask


def read_training_back(job: Job, *, names_model: bool = True) -> FitQuestion:
    """Return the question of a job's rendered launch, started with its environment.

    The model is named in the request, or is what the launch itself says of it.
    """
    launch = make_launch(job)
    environment = [f"{name}={value}" for name, value in launch.environment.items()]
    question = ask(
        gpu=GPU,
        command=[*environment, *launch.command],
        files=[{"name": name, "content": text} for name, text in launch.files.items()],
        **({"model": job.model_name} if names_model else {}),
    )
    assert (question.missing, question.refusal) == ((), None)
    request = decode(question.document, FitRequest)
    return read_fit(request, resolve_offline_model(request.model))
