# The image of both services. `hack/image build vgpu` makes the same without Docker, from the same settings.

# The library is loaded into strangers' processes, also those of old distributions: glibc 2.17.
FROM quay.io/pypa/manylinux2014_x86_64 AS native
COPY vgpu_runtime /source/vgpu_runtime
RUN make -C /source/vgpu_runtime /source/build/libvgpu.so

# The driver of simulated cards goes into containers that are ours.
FROM debian:bookworm-slim AS simulated
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev make
COPY vgpu_runtime /source/vgpu_runtime
RUN make -C /source/vgpu_runtime /source/build/libsimkfd.so

FROM debian:bookworm-slim AS python
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3.11 libstdc++6 \
    && rm -rf /var/lib/apt/lists/*

# Everything below /opt/vgpu, compiled: nothing is written when it runs.
FROM python AS files
RUN apt-get update && apt-get install --yes --no-install-recommends python3-pip
COPY requirements/run.lock /
RUN python3.11 -m pip install --require-hashes --no-deps --only-binary=:all: --no-compile \
        --target /opt/vgpu/packages --requirement /run.lock \
    && rm -rf /opt/vgpu/packages/bin \
    && python3.11 -m compileall -q --invalidation-mode unchecked-hash /opt/vgpu/packages
COPY device_plugin /opt/vgpu/device_plugin
COPY vgpu_runtime /opt/vgpu/vgpu_runtime
RUN find /opt/vgpu/device_plugin /opt/vgpu/vgpu_runtime -type f ! -name '*.py' ! -name '*.yaml' -delete \
    && find /opt/vgpu/device_plugin /opt/vgpu/vgpu_runtime -type d -empty -delete \
    && python3.11 -m compileall -q --invalidation-mode unchecked-hash /opt/vgpu/device_plugin /opt/vgpu/vgpu_runtime

FROM python
COPY --from=files /opt/vgpu/packages /opt/vgpu/packages
COPY --from=files /opt/vgpu/device_plugin /opt/vgpu/device_plugin
COPY --from=files /opt/vgpu/vgpu_runtime /opt/vgpu/vgpu_runtime
COPY --from=native /source/build/libvgpu.so /opt/vgpu/build/
COPY --from=simulated /source/build/libsimkfd.so /opt/vgpu/build/
COPY hack/testbed/images/vgpu /usr/local/bin/vgpu
ENV PYTHONPATH=/opt/vgpu:/opt/vgpu/packages
ENV PYTHONUNBUFFERED=1
ENV PYTHONDONTWRITEBYTECODE=1
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="vgpu"
LABEL org.opencontainers.image.description="Memory slices and core groups of accelerator cards, shared safely between Kubernetes pods"
LABEL org.opencontainers.image.version="${VERSION}"
LABEL org.opencontainers.image.revision="${REVISION}"
USER 65532:65532
ENTRYPOINT ["vgpu"]
