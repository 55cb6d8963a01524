"""Methods and templates of a routed path."""

import re
from functools import cache

from litestar import Litestar
from litestar.routes import HTTPRoute

_PARAMETER = re.compile(r"\\{[^{}]+\\}")


@cache
def _compile_pattern(path_format: str) -> re.Pattern[str]:
    return re.compile(_PARAMETER.sub("[^/]+", re.escape(path_format)))


def list_allowed_methods(app: Litestar, path: str) -> list[str]:
    """Return the methods of the resource at ``path``.

    HEAD is one of them wherever there is GET. A path that is a resource's own is not also one of a
    collection: ``/v1/measurements/import`` is no measurement.
    """
    routes = [
        route
        for route in app.routes
        if isinstance(route, HTTPRoute) and _compile_pattern(route.path_format).fullmatch(path)
    ]
    exact = [route for route in routes if route.path_format == path]
    methods = {method for route in exact or routes for method in route.methods}
    return sorted(methods | ({"HEAD"} if "GET" in methods else set()))
