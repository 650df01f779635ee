# syntax=docker/dockerfile:1
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

FROM python:3.11-slim
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/sidecar sidecar \
    && install -d -o sidecar -g sidecar -m 0700 /var/lib/sidecar/data
COPY --from=build /opt/sidecar /opt/sidecar
ENV PATH=/opt/sidecar/bin:$PATH PYTHONUNBUFFERED=1
USER 10001
WORKDIR /var/lib/sidecar
VOLUME /var/lib/sidecar/data
EXPOSE 4317 4318 4319 4320 4322
HEALTHCHECK --interval=10s --timeout=3s CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:4322/healthz', timeout=2)"]
# Listeners bind to loopback unless configured; mount sidecar.yaml here and name the addresses in it.
ENTRYPOINT ["sidecar"]
CMD ["serve"]
