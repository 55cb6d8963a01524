"""Storage of imported measurements: all of a file, or none."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import UUID, uuid4

from sqlalchemy.orm import Session

from service.access.owners import Owner
from service.base.errors import ImportRefusedError
from service.db.queries import imports as queries
from service.db.records.claims import Claim
from service.db.records.measurements import NewImport
from service.db.session import transaction
from service.formats.measured.reading import Quantity
from service.jobs.states import ClaimState
from service.usecases.imports.claims import Claimant, make_claim
from service.usecases.imports.identities import make_reading_document
from service.usecases.imports.imports import Document, ImportReport, Item
from service.usecases.learning.evidence import CLUSTER
from service.usecases.learning.learning import learn
from service.usecases.stored import Sessions


def look_up(
    sessions: Sessions, report: ImportReport, claimant: Claimant | None = None
) -> ImportReport:
    """Mark the items of a report that are stored already."""
    claimed = _claim(report, claimant)
    with transaction(sessions) as session:
        stored_ids = _read_ids(session, claimed.items)
        claims = queries.read_claims(session, list(stored_ids.values()))
    return replace(
        claimed, items=tuple(_mark_stored(item, stored_ids, claims) for item in claimed.items)
    )


def store(
    sessions: Sessions, report: ImportReport, claimant: Claimant | None = None
) -> ImportReport:
    """Store all new measurements of a file, or none.

    What was stored before keeps its measurement. What ``claimant`` brings teaches once it is
    approved; without one it teaches at once.
    """
    check_storable(report)
    items = _claim(report, claimant).items
    new_ids = {item.import_hash: uuid4() for item in items}
    with transaction(sessions) as session:
        stored_ids = _read_ids(session, items)
        for item in items:
            if item.import_hash not in stored_ids:
                # Somebody may import the same at this moment: his measurement is then the one that
                # is known.
                stored_ids[item.import_hash] = queries.insert_import(
                    session, _make_row(item, new_ids[item.import_hash])
                )
        new = [item for item in items if stored_ids[item.import_hash] == new_ids[item.import_hash]]
        for item in new:
            if item.claim is not None:
                queries.insert_claim(session, new_ids[item.import_hash], item.claim)
        # In the order of their keys, each of which is locked: two imports at once must not wait for
        # each other.
        for item in sorted(new, key=lambda item: item.key):
            if item.claim is None or item.claim.state is ClaimState.APPROVED:
                queries.set_calibration(
                    session,
                    new_ids[item.import_hash],
                    learn(session, new_ids[item.import_hash], key=item.key),
                )
        claims = queries.read_claims(session, list(stored_ids.values()))
    stored = tuple(
        replace(
            _mark_stored(item, stored_ids, claims),
            is_new=stored_ids[item.import_hash] == new_ids[item.import_hash],
        )
        for item in items
    )
    return replace(report, items=stored)


def _read_ids(session: Session, items: Sequence[Item]) -> dict[str, UUID]:
    """Return the measurement of every item that is stored.

    One that was stored before its cluster was named is not stored again.
    """
    hashes = {item.import_hash for item in items} | {
        item.unnamed_hash for item in items if item.unnamed_hash is not None
    }
    stored_ids = queries.read_imported_ids(session, hashes)
    unnamed = {
        item.import_hash: stored_ids[item.unnamed_hash]
        for item in items
        if item.unnamed_hash in stored_ids
    }
    return unnamed | stored_ids


def _claim(report: ImportReport, claimant: Claimant | None) -> ImportReport:
    if claimant is None:
        return report
    return replace(
        report,
        items=tuple(
            replace(
                item,
                claim=make_claim(item.compared, claimant, cluster=item.environment.get(CLUSTER)),
            )
            for item in report.items
        ),
    )


def check_storable(report: ImportReport) -> None:
    """Refuse a file with a contradicting job, or without any job."""
    if not report.items:
        why = f"; {report.left_out[0].what}: {report.left_out[0].reason}" if report.left_out else ""
        message = f"nothing was stored: no reading of the file is of the question{why}"
        raise ImportRefusedError(message, errors=[{"field": "content", "message": message}])
    wrong = [
        (index, problem) for index, item in enumerate(report.items) for problem in item.problems
    ]
    if wrong:
        errors = [{"field": f"items[{index}]", "message": problem} for index, problem in wrong]
        jobs = len({index for index, _ in wrong})
        message = (
            f"{jobs} of {len(report.items)} jobs cannot be stored, so none was; the first: "
            f"{wrong[0][1]}"
        )
        raise ImportRefusedError(message, errors=errors)


def _mark_stored(item: Item, stored_ids: Mapping[str, UUID], claims: Mapping[UUID, Claim]) -> Item:
    """Return an item with its stored measurement and claim."""
    stored_id = stored_ids.get(item.import_hash)
    if stored_id is None:
        return item
    return replace(item, id=stored_id, is_new=False, claim=claims.get(stored_id))


def make_peaks_document(item: Item) -> Document:
    """Return the peaks of a measurement.

    Figures of an engine's parts stand beside them, under ``engine``.
    """
    values = {quantity: reading.value for quantity, reading in item.observation.peaks.items()}
    usual = (Quantity.ALLOCATED, Quantity.RESERVED, Quantity.DEVICE, Quantity.DEVICE_TOTAL_USED)
    peaks: Document = {quantity.value: values.get(quantity) for quantity in usual}
    engine = {quantity.value: value for quantity, value in values.items() if quantity not in usual}
    return (
        peaks
        | {"process_rss_bytes": None, "out_of_memory": item.out_of_memory}
        | ({"engine": engine} if engine else {})
    )


def make_prediction_document(item: Item) -> Document | None:
    """Return predictions beside measurements, as JSON values.

    Those of allocated bytes come first, as of any measurement, then those of each quantity.
    """
    if not item.compared:
        return None
    allocated = next(
        (comparison for comparison in item.compared if comparison.quantity is Quantity.ALLOCATED),
        None,
    )
    return {
        "allocated_bytes": None if allocated is None else allocated.predicted,
        "error": None if allocated is None else allocated.error,
        "quantities": [comparison.to_document() for comparison in item.compared],
    }


def _make_row(item: Item, measurement_id: UUID) -> NewImport:
    return NewImport(
        id=measurement_id,
        import_hash=item.import_hash,
        request=item.request,
        key=item.key,
        environment=item.environment,
        peaks=make_peaks_document(item),
        prediction=make_prediction_document(item),
        readings=[make_reading_document(reading) for reading in item.observation.readings],
        notes=item.notes,
        created_by=None
        if item.claim is None
        else Owner(name=item.claim.source, key=item.claim.source_key),
    )
