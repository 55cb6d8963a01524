"""Tree of expected refusals.

ServiceError
 ├── MalformedBodyError 400          the body is no JSON: syntax, UTF-8, depth
 ├── UnauthorizedError 401           no key, or one that is let in nowhere
 ├── ForbiddenError 403              a key that may do less
 ├── NotFoundError 404               nothing under this path
 │    ├── ModelNotFoundError, ClusterNotFoundError
 │    ├── ReservationNotFoundError
 │    └── MeasurementNotFoundError
 ├── ConflictError 409               legal, but not in the present state
 │    ├── ModelExistsError
 │    ├── CatalogueModelError       the catalogue cannot be changed
 │    ├── ClusterExistsError
 │    ├── ClusterReservedError      deleted without its promises
 │    ├── GpusNotFreeError          others hold what is to be reserved
 │    ├── ReservationEndedError     repeated after its end
 │    ├── IdempotencyConflictError
 │    └── NotCancellableError, NotWithdrawableError
 ├── PreconditionFailedError 412     If-Match names another version
 ├── BodyTooLargeError 413
 ├── UnsupportedMediaTypeError 415
 ├── InvalidRequestError 422         JSON that breaks the schema or a rule
 │    ├── InvalidCursorError
 │    ├── UnknownModelError, UnknownGpuError, named in a body
 │    ├── ImportRefusedError         a job of a file contradicts its question
 │    └── UnstorableTextError        NUL or a lone surrogate
 ├── PreconditionRequiredError 428   If-Match is missing
 ├── TooManyRequestsError 429        past the limit of a key
 ├── UnavailableError 503            a part that this needs is away
 │    └── NotMigratedError
 └── StartupError                    this process cannot start; never sent over HTTP
      └── InvalidSettingError, EmbeddedServerError
"""

from typing import ClassVar


class ServiceError(Exception):
    """Base of every expected refusal.

    ``type`` is a stable slug, ``extra`` are further members of the problem document.
    """

    type: ClassVar[str] = "service-error"
    title: ClassVar[str] = "The request could not be served"
    status: ClassVar[int] = 500

    def __init__(self, detail: str, **extra: object) -> None:
        """Store the detail in words, and facts for programs."""
        super().__init__(detail)
        self.detail = detail
        self.extra: dict[str, object] = extra


class MalformedBodyError(ServiceError):
    """The body is no JSON."""

    type = "malformed-body"
    title = "The body is not valid JSON"
    status = 400


class UnauthorizedError(ServiceError):
    """No valid key was sent.

    One that does not exist, is revoked or is over is refused in the same words.
    """

    type = "unauthorized"
    title = "A valid key is needed"
    status = 401


class ForbiddenError(ServiceError):
    """The key is valid and may not do this."""

    type = "forbidden"
    title = "This key may not do that"
    status = 403


class NotFoundError(ServiceError):
    """Nothing lives under this path."""

    type = "not-found"
    title = "Not found"
    status = 404


class ModelNotFoundError(NotFoundError):
    """No model of this name."""

    type = "model-not-found"
    title = "Model not found"


class ClusterNotFoundError(NotFoundError):
    """No cluster of this name."""

    type = "cluster-not-found"
    title = "Cluster not found"


class ReservationNotFoundError(NotFoundError):
    """No reservation with this id lives on the cluster."""

    type = "reservation-not-found"
    title = "Reservation not found"


class MeasurementNotFoundError(NotFoundError):
    """No measurement with this id."""

    type = "measurement-not-found"
    title = "Measurement not found"


class ConflictError(ServiceError):
    """A legal request that the present state does not allow."""

    type = "conflict"
    title = "Conflict"
    status = 409


class ModelExistsError(ConflictError):
    """The name is taken by a stored or a catalogue model."""

    type = "model-exists"
    title = "A model of this name exists"


class CatalogueModelError(ConflictError):
    """A catalogue model can neither be replaced nor deleted."""

    type = "catalogue-model"
    title = "This model belongs to the catalogue"


class ClusterExistsError(ConflictError):
    """The name is taken by a stored cluster."""

    type = "cluster-exists"
    title = "A cluster of this name exists"


class ClusterReservedError(ConflictError):
    """GPUs of the cluster are reserved.

    The deletion did not say that the reservations end with it.
    """

    type = "cluster-reserved"
    title = "GPUs of this cluster are reserved"


class GpusNotFreeError(ConflictError):
    """Not all GPUs of a reservation are free.

    Nothing was reserved.
    """

    type = "gpus-not-free"
    title = "These GPUs are not free"


class ReservationEndedError(ConflictError):
    """A request came again whose reservation was released or has expired."""

    type = "reservation-ended"
    title = "This reservation has ended"


class IdempotencyConflictError(ConflictError):
    """An ``Idempotency-Key`` came again with another body."""

    type = "idempotency-conflict"
    title = "This Idempotency-Key was used for another request"


class NotCancellableError(ConflictError):
    """A measurement that is over cannot be cancelled."""

    type = "not-cancellable"
    title = "This measurement is over"


class NotWithdrawableError(ConflictError):
    """A measurement without a result cannot be withdrawn."""

    type = "not-withdrawable"
    title = "This measurement has no result"


class PreconditionFailedError(ServiceError):
    """``If-Match`` names another version than the stored one."""

    type = "precondition-failed"
    title = "The resource has changed"
    status = 412


class BodyTooLargeError(ServiceError):
    """The body is larger than the service reads."""

    type = "body-too-large"
    title = "The body is too large"
    status = 413


class UnsupportedMediaTypeError(ServiceError):
    """The body is not declared as JSON."""

    type = "unsupported-media-type"
    title = "The body must be application/json"
    status = 415


class InvalidRequestError(ServiceError):
    """JSON that breaks the schema or a rule."""

    type = "invalid-request"
    title = "The request breaks a rule"
    status = 422


class InvalidCursorError(InvalidRequestError):
    """A cursor that this list never gave out."""

    type = "invalid-cursor"
    title = "The cursor is not one of this list"


class UnknownModelError(InvalidRequestError):
    """Model name that is neither stored nor in the catalogue."""

    type = "unknown-model"
    title = "Unknown model"


class UnknownGpuError(InvalidRequestError):
    """GPU name that the catalogue lacks, or that several have."""

    type = "unknown-gpu"
    title = "Unknown GPU"


class ImportRefusedError(InvalidRequestError):
    """A job of a file cannot be stored.

    So nothing of the file was.
    """

    type = "import-refused"
    title = "The file cannot be imported"


class UnstorableTextError(InvalidRequestError):
    """A string holds a character that no database text may hold."""

    type = "unstorable-text"
    title = "A string cannot be stored"


class PreconditionRequiredError(ServiceError):
    """A change needs ``If-Match``.

    So nobody overwrites what he has not seen.
    """

    type = "precondition-required"
    title = "If-Match is required"
    status = 428


class TooManyRequestsError(ServiceError):
    """A limit is reached: of a key, or of questions that wait.

    ``retry_after_s`` says when it is worth another try.
    """

    type = "too-many-requests"
    title = "The limit of this key is reached"
    status = 429


class UnavailableError(ServiceError):
    """A part that this request needs is away."""

    type = "unavailable"
    title = "Temporarily unavailable"
    status = 503


class NotMigratedError(UnavailableError):
    """The database's schema is older or newer than this program."""

    type = "not-migrated"
    title = "The database is not at this version's schema"
