# syntax=docker/dockerfile:1
# Built for linux/amd64 and linux/arm64 with an SBOM and provenance: docker buildx bake -f deploy/image/bake.json
FROM python:3.11-slim AS build
WORKDIR /src
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
COPY deploy/image/requirements.lock pyproject.toml README.md LICENSE ./
RUN python -m venv /opt/sidecar \
    && /opt/sidecar/bin/pip install --quiet --require-hashes -r requirements.lock
COPY sidecar ./sidecar
COPY processors ./processors
COPY policies ./policies
RUN /opt/sidecar/bin/pip install --quiet --no-deps --no-build-isolation .

# The demo's agent, its scripted model and its shop: what deploy/compose puts around the sidecar.
FROM build AS build-demo
COPY deploy/image/demo.lock ./
RUN /opt/sidecar/bin/pip install --quiet --require-hashes -r demo.lock

FROM python:3.11-slim AS base
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/sidecar sidecar \
    && install -d -o sidecar -g sidecar -m 0700 /var/lib/sidecar/data
ENV PATH=/opt/sidecar/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001
WORKDIR /var/lib/sidecar

FROM base AS demo
COPY --from=build-demo /opt/sidecar /opt/sidecar
ENTRYPOINT ["sidecar"]
CMD ["--help"]

FROM base AS sidecar
COPY --from=build /opt/sidecar /opt/sidecar
# The root file system may be read-only: all that is written stands here.
VOLUME /var/lib/sidecar/data
EXPOSE 4317 4318 4319 4320 4321 4322
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:4322/healthz', timeout=2)"]
# Listeners bind to loopback unless configured; mount sidecar.yaml here and name the addresses in it.
ENTRYPOINT ["sidecar"]
CMD ["serve"]
