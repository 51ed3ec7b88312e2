# Images of streamproof, one stage each. `just build TARGET` stages a context (bench/images/context.py: this file alone
# is no context) and gives the arguments; what differs between targets is data in docker/pins.toml.
#
# Plain enough for the BuildKit of Docker 20.10: no frontend to fetch, no network while it runs, no secrets. Each stage
# is one layer on its base, written by bench/images/inside/assemble.py, which checks base and versions, installs by hash
# and leaves nothing in it that would differ in a second build.

# NAME@sha256:...
ARG BASE

# vLLM's published image, run by nobody in particular, with one folder for everything that it compiles.
FROM ${BASE} AS serve-cuda
ARG BASE
ARG CARRIES
ARG SOURCE_DATE_EPOCH
RUN --mount=type=bind,target=/mnt PYTHONPATH=/mnt/tools python3 -sP -m bench.images.inside.assemble
ENV HOME=/home/streamproof \
    PYTHONDONTWRITEBYTECODE=1 \
    VLLM_CACHE_ROOT=/var/cache/streamproof/vllm \
    DG_JIT_CACHE_DIR=/var/cache/streamproof/vllm/deep_gemm \
    TORCHINDUCTOR_CACHE_DIR=/var/cache/streamproof/inductor \
    TRITON_CACHE_DIR=/var/cache/streamproof/triton \
    FLASHINFER_WORKSPACE_BASE=/var/cache/streamproof/flashinfer \
    TVM_FFI_CACHE_DIR=/var/cache/streamproof/tvm-ffi \
    CUTE_DSL_CACHE_DIR=/var/cache/streamproof/cute-dsl \
    MINFER_FMHA_CACHE_DIR=/var/cache/streamproof/fmha-sm100 \
    CUDA_CACHE_PATH=/var/cache/streamproof/cuda
EXPOSE 8000
# A cold start on an H200 takes 250 to 600 s.
HEALTHCHECK --interval=30s --timeout=5s --start-period=900s --retries=3 \
    CMD ["python3", "-I", "/opt/streamproof/health.py"]
USER 10001:10001
# A recipe's resolved flags follow (`just show TARGET --command`).
ENTRYPOINT ["python3", "-m", "vllm.entrypoints.openai.api_server"]
CMD []

# vLLM's CPU build from its lock. The base must have a C++ compiler: PyTorch compiles a few functions at the start.
FROM ${BASE} AS serve-cpu
ARG BASE
ARG CARRIES
ARG PYTHON
ARG SOURCE_DATE_EPOCH
RUN --mount=type=bind,target=/mnt PYTHONPATH=/mnt/tools python3 -sP -m bench.images.inside.assemble
ENV HOME=/home/streamproof \
    PYTHONDONTWRITEBYTECODE=1 \
    VLLM_CACHE_ROOT=/var/cache/streamproof/vllm \
    TORCHINDUCTOR_CACHE_DIR=/var/cache/streamproof/inductor \
    TRITON_CACHE_DIR=/var/cache/streamproof/triton \
    FLASHINFER_WORKSPACE_BASE=/var/cache/streamproof/flashinfer \
    TVM_FFI_CACHE_DIR=/var/cache/streamproof/tvm-ffi
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=300s --retries=3 \
    CMD ["/opt/streamproof/env/bin/python", "-I", "/opt/streamproof/health.py"]
USER 10001:10001
ENTRYPOINT ["/opt/streamproof/env/bin/python", "-m", "vllm.entrypoints.openai.api_server"]
CMD []

# What the workers of `just quantize` run in: docker run IMAGE quantize.worker.MODULE JOB.
FROM ${BASE} AS quantize
ARG BASE
ARG CARRIES
ARG PYTHON
ARG SOURCE_DATE_EPOCH
RUN --mount=type=bind,target=/mnt PYTHONPATH=/mnt/tools python3 -sP -m bench.images.inside.assemble
ENV HOME=/home/streamproof \
    PYTHONDONTWRITEBYTECODE=1 \
    HF_HUB_OFFLINE=1 \
    TRANSFORMERS_OFFLINE=1 \
    TORCHINDUCTOR_CACHE_DIR=/var/cache/streamproof/inductor \
    TRITON_CACHE_DIR=/var/cache/streamproof/triton
HEALTHCHECK NONE
USER 10001:10001
ENTRYPOINT ["/opt/streamproof/env/bin/python", "-m"]
CMD []

# The client that measures and verifies: docker run IMAGE verify REPORT.
FROM ${BASE} AS bench
ARG BASE
ARG CARRIES
ARG PYTHON
ARG SOURCE_DATE_EPOCH
RUN --mount=type=bind,target=/mnt PYTHONPATH=/mnt/tools python3 -sP -m bench.images.inside.assemble
ENV HOME=/home/streamproof \
    PYTHONDONTWRITEBYTECODE=1
HEALTHCHECK NONE
USER 10001:10001
ENTRYPOINT ["/opt/streamproof/env/bin/python", "-m", "bench"]
CMD ["--help"]
