"""Refusals for programs: problem documents (RFC 9457) on stdout."""

from service.base.errors import InvalidRequestError, ServiceError
from service.base.server_refusals import ServerRefusalError
from service.cli.printing import print_json
from service.contract.to_answer.problems import build_problem, build_refusal, to_document
from service.estimator.values.errors import EstimatorError
from service.terminal.arguments import UsageError
from service.terminal.errors import describe_error

_PATHS = {"plan": "plans", "measure": "measurements"}
"""Paths of commands under ``/v1`` that have other names than they."""
_INTERNAL = 500


def print_problem(error: BaseException, command: str) -> None:
    """Print the problem document of whatever ended a command."""
    print_json(build_document(error, f"/v1/{_PATHS.get(command, command)}"))


def build_document(error: BaseException, instance: str) -> dict[str, object]:
    """Return the problem document of an error.

    It is what the API would send: of words for the command line the error that they came from, of
    a server's refusal what it sent.
    """
    match _find_origin(error):
        case ServerRefusalError(document=document):
            return document
        case ServiceError() | EstimatorError() as refusal:
            return build_refusal(refusal, instance=instance)
        case UsageError(message=message):
            return build_refusal(InvalidRequestError(message), instance=instance)
        case fault:
            kind = ("internal-error", "Internal error")
            detail = describe_error(fault if isinstance(fault, Exception) else Exception(fault))
            return to_document(build_problem(instance, kind, status=_INTERNAL, detail=detail))


def _find_origin(error: BaseException) -> BaseException:
    while isinstance(error.__cause__, ServiceError | EstimatorError):
        error = error.__cause__
    return error
