# The images of the project: `product` (both services, the default) and `simulated` (the same on simulated cards).
# `hack/image build vgpu simulated` puts the same files and settings on Debian's packages without Docker.

# The library is loaded into strangers' processes, also those of old distributions: glibc 2.17.
# BuildKit sets TARGETARCH to what it builds for: --platform linux/amd64,linux/arm64.
FROM quay.io/pypa/manylinux2014_x86_64 AS native-amd64
FROM quay.io/pypa/manylinux2014_aarch64 AS native-arm64
FROM native-${TARGETARCH} AS native
COPY vgpu_runtime /source/vgpu_runtime
COPY device_plugin/core/placement/kernel /source/device_plugin/core/placement/kernel
COPY device_plugin/adapters/name_sums /source/device_plugin/adapters/name_sums
RUN make -C /source/vgpu_runtime /source/build/libvgpu.so /source/build/vgpu-tell /source/build/vgpu-smi \
    /source/build/vgpu-loads /source/build/libvgpu-scores.so /source/build/libvgpu-names.so

# The driver of simulated cards goes into containers that are ours.
FROM debian:bookworm-slim AS driver
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev make
COPY vgpu_runtime /source/vgpu_runtime
RUN make -C /source/vgpu_runtime /source/build/libsimkfd.so

# Everything below /opt/vgpu, compiled: nothing is written when it runs.
FROM debian:bookworm-slim AS files
RUN apt-get update && apt-get install --yes --no-install-recommends python3.11 libstdc++6 python3-pip
COPY requirements/run.lock /
RUN python3.11 -m pip install --require-hashes --no-deps --only-binary=:all: --no-compile \
        --target /opt/vgpu/packages --requirement /run.lock \
    && rm -rf /opt/vgpu/packages/bin \
    && find /opt/vgpu/packages -type d -name tests -prune -exec rm -rf {} + \
    && python3.11 -m compileall -q --invalidation-mode unchecked-hash /opt/vgpu/packages
COPY device_plugin /opt/vgpu/device_plugin
COPY vgpu_runtime /opt/vgpu/vgpu_runtime
COPY hack/__init__.py /opt/vgpu/hack/__init__.py
COPY hack/simulated /opt/vgpu/hack/simulated
RUN find /opt/vgpu/device_plugin /opt/vgpu/vgpu_runtime /opt/vgpu/hack -type f \
        ! -name '*.py' ! -name '*.yaml' ! -name '*.html' ! -name '*.css' ! -name '*.js' ! -name '*.svg' -delete \
    && find /opt/vgpu/device_plugin /opt/vgpu/vgpu_runtime /opt/vgpu/hack -type d -empty -delete \
    && python3.11 -m compileall -q --invalidation-mode unchecked-hash \
        /opt/vgpu/device_plugin /opt/vgpu/vgpu_runtime /opt/vgpu/hack \
    && mkdir /simulated && mv /opt/vgpu/hack /opt/vgpu/vgpu_runtime/sim /simulated

# Debian's Python with the libraries it needs: neither a shell nor a package manager beside an agent that is root.
FROM gcr.io/distroless/python3-debian12 AS product
COPY --from=files /opt/vgpu/packages /opt/vgpu/packages
COPY --from=files /opt/vgpu/device_plugin /opt/vgpu/device_plugin
COPY --from=files /opt/vgpu/vgpu_runtime /opt/vgpu/vgpu_runtime
COPY --from=native /source/build/libvgpu.so /source/build/vgpu-tell /source/build/vgpu-smi \
    /source/build/vgpu-loads /source/build/libvgpu-scores.so /source/build/libvgpu-names.so /opt/vgpu/build/
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

FROM product AS simulated
COPY --from=files /simulated/hack /opt/vgpu/hack
COPY --from=files /simulated/sim /opt/vgpu/vgpu_runtime/sim
COPY --from=driver /source/build/libsimkfd.so /opt/vgpu/build/
COPY hack/testbed/images/vgpu-simulated /usr/local/bin/vgpu

FROM product
