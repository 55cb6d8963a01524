# The API, the reconcile loop and the migrations: no torch, no compiler, no shell needed, nobody's root.
# A name with a digest holds it: --build-arg PYTHON_IMAGE=python@sha256:…
ARG PYTHON_IMAGE=python:3.11-slim-bookworm
FROM ${PYTHON_IMAGE} AS build
WORKDIR /src
# The replay of the allocator is compiled: five times as fast. The image that runs has no compiler.
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev
COPY pyproject.toml README.md LICENSE requirements.lock ./
COPY deploy/release/native ./deploy/release/native
COPY service ./service
COPY worker ./worker
COPY migrations ./migrations
COPY deploy/images/api.lock ./deploy/images/api.lock
# Every package has the version of the lock; on x86-64 every file has its hash.
ENV PIP_CONSTRAINT=/src/requirements.lock PIP_NO_CACHE_DIR=1 PIP_NO_COMPILE=1
RUN python -m venv /opt/headroom \
    && if [ "$(uname -m)" = x86_64 ]; then PIP_CONSTRAINT= /opt/headroom/bin/pip install --require-hashes --no-deps -r deploy/images/api.lock; fi \
    && /opt/headroom/bin/pip install ".[server,mcp,oidc,telemetry]" \
    && /opt/headroom/bin/pip check

FROM ${PYTHON_IMAGE}
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin headroom
COPY --from=build /opt/headroom /opt/headroom
ENV PATH=/opt/headroom/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 HEADROOM_LOG_FORMAT=json
USER 10001:10001
WORKDIR /tmp
EXPOSE 8000
ENTRYPOINT ["headroom"]
CMD ["serve", "--host", "0.0.0.0"]
