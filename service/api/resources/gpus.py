"""GET /v1/gpus: the GPU catalogue."""

from typing import Any

from litestar import Request, Router, get
from litestar.types import ASGIApp

from service.api.http.decoding import read_query
from service.api.http.operation import Operation, Reply
from service.api.http.pagination import make_page_request
from service.api.http.responses import json_response
from service.catalog.gpu_entries import GpuEntry
from service.catalog.gpus import list_gpus
from service.contract.schemas.fields import PageQuery
from service.contract.schemas.gpus import GpuAnswer, GpuPage, MigAnswer
from service.usecases.stored import make_page_by_name


@get(
    "/",
    sync_to_thread=False,
    operation=Operation(
        id="listGpus",
        tag="gpus",
        summary="List the GPUs that questions may name, with the source of every figure.",
        query=PageQuery,
        replies={200: Reply(description="One page.", bodies=(GpuPage,))},
        problems=(422,),
    ),
)
def list_all(request: Request[Any, Any, Any]) -> ASGIApp:
    """List the GPUs of the catalogue."""
    query = read_query(request.scope, PageQuery)
    page_query = make_page_request(query.limit, query.cursor)
    page = make_page_by_name(
        list_gpus(), page_query, list_name="gpus", name=lambda entry: entry.name
    )
    return json_response(
        GpuPage(items=[_build_answer(entry) for entry in page.items], next_cursor=page.next_cursor)
    )


def _build_answer(entry: GpuEntry) -> GpuAnswer:
    return GpuAnswer(
        name=entry.name,
        vendor=entry.vendor,
        family=entry.family,
        form=entry.form,
        aliases=entry.aliases,
        capacity_bytes=entry.capacity_bytes,
        usable_bytes=entry.usable_bytes,
        has_unified_memory=entry.has_unified_memory,
        bandwidth_bytes_per_second=entry.bandwidth_bytes_per_second,
        peak_flops=entry.peak_flops,
        link_bytes_per_second=entry.link_bytes_per_second,
        nvlink_bytes_per_second=entry.nvlink_bytes_per_second,
        pcie_bytes_per_second=entry.pcie_bytes_per_second,
        mig_profiles=[
            MigAnswer(
                name=profile.name,
                max_instances=profile.max_instances,
                memory_eighths=profile.memory_eighths,
                usable_bytes=entry.slice_usable_bytes(profile),
                multiprocessors=profile.multiprocessors,
            )
            for profile in entry.mig_profiles
        ],
        compute_capability=entry.compute_capability,
        gfx_target=entry.gfx_target,
        sources=entry.sources,
    )


router = Router(path="/v1/gpus", route_handlers=[list_all])
