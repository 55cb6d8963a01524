"""List measurements, newest first unless `sort` says otherwise."""

import datetime
from typing import Any

import httpx

from ...models.list_measurements_format import ListMeasurementsFormat
from ...models.list_measurements_source import ListMeasurementsSource
from ...models.list_measurements_task import ListMeasurementsTask
from ...models.measurement_page import MeasurementPage
from ...models.measurement_sort import MeasurementSort
from ...models.measurement_table import MeasurementTable
from ...models.probe_device import ProbeDevice
from ...models.status import Status
from ...types import UNSET, Call, Unset


def call(
    *,
    limit: int | Unset = UNSET,
    cursor: str | Unset = UNSET,
    model: str | Unset = UNSET,
    gpu: str | Unset = UNSET,
    status: Status | Unset = UNSET,
    device: ProbeDevice | Unset = UNSET,
    family: str | Unset = UNSET,
    task: ListMeasurementsTask | Unset = UNSET,
    source: ListMeasurementsSource | Unset = UNSET,
    error_at_least: float | Unset = UNSET,
    error_at_most: float | Unset = UNSET,
    sort: MeasurementSort | Unset = UNSET,
    format_: ListMeasurementsFormat | Unset = UNSET,
    created_after: datetime.datetime | Unset = UNSET,
    created_before: datetime.datetime | Unset = UNSET,
) -> Call[MeasurementPage | MeasurementTable]:
    """List measurements, newest first unless `sort` says otherwise."""

    params: dict[str, Any] = {}

    params["limit"] = limit

    params["cursor"] = cursor

    params["model"] = model

    params["gpu"] = gpu

    json_status: str | Unset = UNSET
    if not isinstance(status, Unset):
        json_status = status

    params["status"] = json_status

    json_device: str | Unset = UNSET
    if not isinstance(device, Unset):
        json_device = device

    params["device"] = json_device

    params["family"] = family

    json_task: str | Unset = UNSET
    if not isinstance(task, Unset):
        json_task = task

    params["task"] = json_task

    json_source: str | Unset = UNSET
    if not isinstance(source, Unset):
        json_source = source

    params["source"] = json_source

    params["error_at_least"] = error_at_least

    params["error_at_most"] = error_at_most

    json_sort: str | Unset = UNSET
    if not isinstance(sort, Unset):
        json_sort = sort

    params["sort"] = json_sort

    json_format_: str | Unset = UNSET
    if not isinstance(format_, Unset):
        json_format_ = format_

    params["format"] = json_format_

    json_created_after: str | Unset = UNSET
    if not isinstance(created_after, Unset):
        json_created_after = created_after.isoformat()
    params["created_after"] = json_created_after

    json_created_before: str | Unset = UNSET
    if not isinstance(created_before, Unset):
        json_created_before = created_before.isoformat()
    params["created_before"] = json_created_before

    params = {k: v for k, v in params.items() if v is not UNSET and v is not None}

    return Call(
        method="GET",
        path="/v1/measurements",
        params=params,
        headers={},
        body=None,
        read=_read,
    )


def _read(response: httpx.Response) -> MeasurementPage | MeasurementTable:
    if response.status_code == 200:

        def _parse_response_200(data: object) -> MeasurementPage | MeasurementTable:
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                response_200_type_0 = MeasurementPage.from_dict(data)

                return response_200_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            if not isinstance(data, dict):
                raise TypeError()
            response_200_type_1 = MeasurementTable.from_dict(data)

            return response_200_type_1

        response_200 = _parse_response_200(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)
