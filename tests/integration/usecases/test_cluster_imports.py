"""Imports are stored by version, and an import that changes nothing leaves the version alone."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy.orm import Session, sessionmaker

from service.base.errors import (
    ClusterNotFoundError,
    InvalidRequestError,
    PreconditionFailedError,
    PreconditionRequiredError,
)
from service.planner.cluster.adoption import ImportScope
from service.usecases.clusters import clusters, imports
from service.usecases.clusters.imports import NewImport
from tests.unit.formats.inventories.listing_samples import read_samples

EARLIER = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=3)
SLURM = NewImport(
    observed=read_samples("slurm_26_05_scontrol.json", "slurm_26_05_squeue.json"),
    observed_at=EARLIER,
)


def test_what_was_imported_comes_back(sessions: sessionmaker[Session]) -> None:
    """Every field of nodes and pools survives storage."""
    outcome = imports.apply(sessions, "lab", SLURM, if_match=None)
    stored = clusters.read(sessions, "lab")

    assert (outcome.is_new, outcome.etag) == (True, stored.etag)
    nodes = {node.name: node for pool in stored.inventory.pools for node in pool.nodes or ()}
    assert nodes["n2"].unavailable == "drain: fan broken"
    assert (nodes["n1"].source, nodes["n1"].observed_at) == ("slurm 26.05.5", EARLIER)
    assert nodes["n1"].allocations[0].gpu_indices == (0, 1, 2)
    unknown = next(pool for pool in stored.inventory.pools if pool.gpu == "zeta9000")
    assert unknown.gpu_memory_bytes == 0


def test_the_same_again_records_that_it_was_seen(sessions: sessionmaker[Session]) -> None:
    """The version stays, so that nobody's If-Match is lost to a watch."""
    first = imports.apply(sessions, "lab", SLURM, if_match=None)
    later = replace(SLURM, observed_at=EARLIER + timedelta(hours=2))

    again = imports.apply(sessions, "lab", later, if_match=f'"{first.etag}"')

    stored = clusters.read(sessions, "lab")
    seen = {node.observed_at for pool in stored.inventory.pools for node in pool.nodes or ()}
    assert (again.changes, again.etag, stored.etag) == ((), first.etag, first.etag)
    assert seen == {EARLIER + timedelta(hours=2)}


def test_levels_and_other_tools_survive_an_import(sessions: sessionmaker[Session]) -> None:
    """Kubernetes' nodes stay beside Slurm's, with their places in the network."""
    imports.apply(
        sessions, "lab", NewImport(observed=read_samples("kubernetes_nodes.json")), if_match=None
    )

    outcome = imports.apply(sessions, "lab", SLURM, if_match="*")

    nodes = {
        node.name: node
        for pool in clusters.read(sessions, "lab").inventory.pools
        for node in pool.nodes or ()
    }
    assert {"whole-1", "n1"} <= set(nodes)
    assert nodes["whole-1"].levels == ("nn-1", "nn-11", "nn-111")
    assert any("stay, which the content does not have" in text for text in outcome.warnings)


def test_a_change_needs_the_version_that_was_seen(sessions: sessionmaker[Session]) -> None:
    """Nothing is stored by half, and a cluster that there is not has no version."""
    imports.apply(sessions, "lab", SLURM, if_match=None)
    before = clusters.read(sessions, "lab")

    with pytest.raises(PreconditionRequiredError):
        imports.apply(sessions, "lab", SLURM, if_match=None)
    with pytest.raises(PreconditionFailedError):
        imports.apply(sessions, "lab", SLURM, if_match='"other"')
    with pytest.raises(ClusterNotFoundError, match="leave If-Match out to store it"):
        imports.apply(sessions, "none", SLURM, if_match="*")

    assert clusters.read(sessions, "lab") == before


def test_an_import_of_nothing_is_refused(sessions: sessionmaker[Session]) -> None:
    """An empty listing with the scope of the cluster would remove all that there is."""
    imports.apply(sessions, "lab", SLURM, if_match=None)
    empty = replace(SLURM, observed=replace(SLURM.observed, nodes=()), scope=ImportScope.CLUSTER)

    with pytest.raises(InvalidRequestError, match="no node with GPUs"):
        imports.apply(sessions, "lab", empty, if_match="*")


def test_a_preview_stores_nothing(sessions: sessionmaker[Session]) -> None:
    """It says what there would be, beside what there is."""
    outcome = imports.preview(sessions, "lab", SLURM)

    assert (outcome.is_new, outcome.etag, outcome.after.gpus) == (True, None, 22)
    with pytest.raises(ClusterNotFoundError):
        clusters.read(sessions, "lab")
