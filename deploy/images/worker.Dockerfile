# A worker with torch. TORCH_INDEX chooses its build: the one for CUDA by default, that for processors alone with
# --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cpu
# A name with a digest holds it: --build-arg PYTHON_IMAGE=python@sha256:…
ARG PYTHON_IMAGE=python:3.11-slim-bookworm
FROM ${PYTHON_IMAGE} AS build
ARG TORCH_INDEX=https://download.pytorch.org/whl/cu130
WORKDIR /src
RUN python -m venv /opt/headroom && /opt/headroom/bin/pip install --no-cache-dir --no-compile --index-url ${TORCH_INDEX} torch==2.13.0
# The replay of the allocator is compiled: five times as fast. The image that runs has no compiler.
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev
COPY pyproject.toml README.md LICENSE requirements.lock ./
COPY deploy/release/native ./deploy/release/native
COPY service ./service
COPY worker ./worker
COPY migrations ./migrations
# Every other package has the version of the lock.
RUN PIP_CONSTRAINT=/src/requirements.lock /opt/headroom/bin/pip install --no-cache-dir --no-compile ".[worker,telemetry]"

FROM ${PYTHON_IMAGE}
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin headroom
COPY --from=build /opt/headroom /opt/headroom
# The driver's library comes from the host; compute and utility bring CUDA and NVML.
ENV PATH=/opt/headroom/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 HEADROOM_LOG_FORMAT=json \
    NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 10001:10001
WORKDIR /tmp
ENTRYPOINT ["headroom"]
CMD ["worker", "--device", "auto"]
