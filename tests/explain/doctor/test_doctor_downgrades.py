"""What an engine that runs does worse than it was asked for, each in a real healthy start."""

from __future__ import annotations

import pytest

from bench.explain.doctor.examine import Verdict
from bench.explain.doctor.knowledge import knowledge
from tests.explain.doctor import scenes as s

STARTED = s.until("Application startup complete")
NON_DEFAULT = next(line for line in STARTED if "non-default args" in line)


def with_args(args: str, lines: list[str] | None = None) -> list[str]:
    """A start whose command line said more."""
    return [line.replace("'model': '/model',", f"'model': '/model', {args},") for line in lines or STARTED]


def warned(message: str, source: str = "vllm.py:1") -> list[str]:
    return s.with_lines(STARTED, s.info(source, message, "WARNING"))


def profiled(piecewise: int, full: int) -> list[str]:
    """A start whose graphs are these largest ones."""
    new = f"PIECEWISE=51 (largest={piecewise}), FULL=51 (largest={full})"
    return [line.replace("PIECEWISE=51 (largest=512), FULL=51 (largest=512)", new) for line in STARTED]


def estimated(gib: str) -> list[str]:
    return [
        line.replace("Estimated CUDA graph memory: 0.74", f"Estimated CUDA graph memory: {gib}") for line in STARTED
    ]


def pool(actual: float, estimate: float) -> list[str]:
    said = (
        f"CUDA graph pool memory: {actual} GiB (actual), {estimate} GiB (estimated), difference: "
        f"{abs(estimate - actual):.2f} GiB (1%)."
    )
    return s.with_lines([line for line in STARTED if "pool memory" not in line], s.info("gpu_worker.py:793", said))


def reports(
    count: int, *, hits: str = "0.0", prompt: str = "5046.0", output: str = "111.0", running: int = 4
) -> list[str]:
    said = (
        f"Engine 000: Avg prompt throughput: {prompt} tokens/s, Avg generation throughput: {output} tokens/s, "
        f"Running: {running} reqs, Waiting: 0 reqs, GPU KV cache usage: 0.4%, Prefix cache hit rate: {hits}%"
    )
    return s.with_lines(STARTED, *[s.info("loggers.py:310", said)] * count, process="APIServer pid=4137")


ACCEPTANCE = "SpecDecoding metrics: Mean acceptance length: {}, Accepted throughput: 0.00 tokens/s"
MTP4 = "'speculative_config': {'method': 'mtp', 'num_speculative_tokens': 4}"
FP4 = "Your GPU does not have native support for FP4 computation but FP4 quantization is being used. Weight-only FP4"
B200 = [line.replace("NVIDIA_H200", "NVIDIA_B200") for line in STARTED]

CASES: list[tuple[str, list[str]]] = [
    (
        "full-graphs-lost",
        warned(
            "CUDAGraphMode.FULL_AND_PIECEWISE is not supported with spec-decode for attention "
            "backend FlashInferBackend "
            "(support: AttentionCGSupport.UNIFORM_SINGLE_TOKEN_DECODE); setting cudagraph_mode=PIECEWISE"
        ),
    ),
    (
        "full-graphs-lost",
        warned("Pooling models do not support full cudagraphs. Overriding cudagraph_mode to PIECEWISE."),
    ),
    (
        "graphs-lost",
        warned(
            "CUDAGraphMode.FULL is not supported with X backend (support: NEVER); setting cudagraph_mode=NONE because"
        ),
    ),
    ("fp4-marlin-blackwell", s.with_lines(B200, s.info("marlin.py:34", FP4, "WARNING"))),
    (
        "prefix-inert-block",
        [line.replace("block size to 1056 tokens", "block size to 32768 tokens") for line in STARTED],
    ),
    ("prefix-never-hits", reports(8)),
    (
        "weights-skipped",
        warned("Parameter layers.0.linear_attn.in_proj_ba.weight not found in params_dict, skip loading"),
    ),
    (
        "drafts-all-rejected",
        s.with_lines(with_args(MTP4), *[s.info("metrics.py:120", ACCEPTANCE.format("1.00"))] * 3),
    ),
    ("graph-estimate-negative", estimated("-0.35")),
    ("graph-pool-estimate-negative", pool(0.75, -0.2)),
    ("graph-estimate-transient", estimated("4.21")),
    ("graph-estimate-too-large", pool(0.75, 6.4)),
    (
        "capture-list-truncated",
        with_args("'cudagraph_capture_sizes': [1, 2, 4, 8192, 16384]", profiled(8195, 320)),
    ),
    (
        "capture-list-overridden",
        warned("cudagraph_capture_sizes specified in compilation_config [1, 9000] is overridden by config [1]"),
    ),
    ("decode-beyond-graphs", with_args(f"{MTP4}, 'max_num_seqs': 256")),
    (
        "mamba-blocks-capped",
        warned("Capping cudagraph capture sizes from max 512 to 352 to fit Mamba cache blocks (361 blocks available)."),
    ),
    ("option-given-up", warned("Prefix caching is not supported for this model, disabling it for V1 backend.")),
    (
        "deepgemm-moe-blackwell",
        s.with_lines(
            warned("Auto-disabled DeepGemm for model_type=qwen3_5_moe_text on Blackwell."),
            s.info("fp8.py:1", "Using DEEPGEMM Fp8 MoE backend out of potential backends: ['DEEPGEMM']"),
        ),
    ),
    ("cubins-unreachable-warned", warned("Failed to connect to NVIDIA artifactory: [Errno -3]")),
    ("prefix-mtp-corrupts", s.of_version("0.24.0", with_args(MTP4))),
    ("max-len-reduced", warned("Auto-fit max_model_len: reduced from 262144 to 65536 to fit in available GPU memory")),
    (
        "fp8-marlin",
        warned("Your GPU does not have native support for FP8 computation but FP8 quantization is being used."),
    ),
    ("quant-emulation", warned("Using 'EMULATION' NvFp4 MoE backend out of potential backends: ['EMULATION']")),
    (
        "full-decode-only",
        warned(
            "CUDAGraphMode.FULL is not supported with X backend (support: Y); setting cudagraph_mode=FULL_AND_PIECEWISE"
        ),
    ),
]


@pytest.mark.parametrize(("entry", "lines"), CASES, ids=[case[0] for case in CASES])
def test_a_silent_downgrade_is_found_with_its_consequence(entry: str, lines: list[str]) -> None:
    log = s.read(lines)
    (found,) = [finding for finding in log.diagnoses[0].downgrades if finding.entry.id == entry]
    assert log.verdict is Verdict.DOWNGRADED
    assert found.consequence
    assert found.evidence
    assert found.remedies


def test_every_downgrade_that_the_doctor_knows_is_tried_here() -> None:
    known = {entry.id for entry in knowledge().entries if entry.kind == "downgrade"}
    assert known == {entry for entry, _ in CASES}


@pytest.mark.parametrize(
    "lines",
    [
        STARTED,
        profiled(512, 512),
        with_args("'cudagraph_capture_sizes': [1, 2, 4, 512]"),
        reports(8, hits="56.0"),
        reports(2),
        reports(8, prompt="0.0"),
        pool(0.75, 0.93),
        estimated("0.0"),
        s.with_lines(with_args(MTP4), *[s.info("metrics.py:120", ACCEPTANCE.format("3.20"))] * 5),
        with_args(f"{MTP4}, 'max_num_seqs': 64"),
        s.with_lines(STARTED, s.info("marlin.py:34", FP4, "WARNING")),  # on a Hopper that is all there is
        warned("Enforce eager set, disabling torch.compile and CUDAGraphs. setting cudagraph_mode=NONE"),
        s.of_version("0.26.0", with_args(MTP4)),
        warned("Disabling calculate_kv_scales for hybrid model."),
        warned("No available shared memory broadcast block found in 60 seconds."),
    ],
)
def test_what_is_no_downgrade_is_not_called_one(lines: list[str]) -> None:
    assert s.downgrades(lines) == set()


def test_the_sizes_are_in_the_words() -> None:
    lines = with_args("'cudagraph_capture_sizes': [1, 2, 4, 8192, 16384]", profiled(8195, 320))
    (found,) = s.diagnosis(lines).downgrades
    assert found.title == "The largest capture size was dropped: 16384 asked for, 8195 kept"
    assert "16384" in found.evidence[0].text


def test_an_engine_that_hangs_is_failed_though_it_started() -> None:
    lines = reports(3) + reports(4, prompt="0.0", output="0.0")[len(STARTED) :]
    log = s.read(lines)
    assert log.verdict is Verdict.FAILED
    assert s.named(lines) == "serving-hang"
    assert s.named(lines + reports(1)[len(STARTED) :]) is None


def test_notes_are_no_fault() -> None:
    lines = with_args(MTP4)
    found = s.diagnosis(lines)
    assert {finding.entry.id for finding in found.notes} >= {"prefix-whole-blocks", "prefix-mtp-check"}
    assert s.read(lines).verdict is not Verdict.FAILED


def test_the_telling_part_of_a_long_line_is_quoted() -> None:
    (found,) = [f for f in s.diagnosis(CASES[0][1]).downgrades if f.entry.id == "full-graphs-lost"]
    text = found.evidence[0].text
    assert text.startswith("(EngineCore pid=4264) WARNING")
    assert text.endswith("… setting cudagraph_mode=PIECEWISE")
