"""The data that decides what is packed: locks, lists of hosts, rules of what is left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.bundle.hosts import host_packages, normalized, presets, provided
from bench.bundle.left_out import CLIENT, RULES_FILE, Rule, leave_out, rules_for
from bench.bundle.requirements import blocks, without
from bench.bundle.wheels import client_requirements
from bench.engine.pins import REPOSITORY
from bench.errors import StreamproofError, UsageError

LOCK = """\
# made by hand
Some.Package==1.0 \\
    --hash=sha256:aa
    # via other
other==2 ; python_full_version < '3.12' \\
    --hash=sha256:bb
other==3 ; python_full_version >= '3.12' \\
    --hash=sha256:cc
"""
CUDA = (REPOSITORY / "docker/locks/engine-cuda.txt").read_text()
GPU_HOST = "torch-2.11-cu130"


def test_a_package_is_taken_or_left_with_its_hashes() -> None:
    assert set(blocks(LOCK)) == {"some-package", "other"}
    assert without(LOCK, {"some-package"}) == LOCK[LOCK.index("other==2") :]
    assert without(LOCK, {"other"}) == "Some.Package==1.0 \\\n    --hash=sha256:aa\n    # via other\n"


@pytest.mark.parametrize("line", ["-e ./here", "name>=1", "    --hash=sha256:aa", "https://example.org/x.whl"])
def test_a_line_of_another_form_is_not_skipped(line: str) -> None:
    with pytest.raises(StreamproofError, match="line 1 of the lock"):
        blocks(line + "\n")


def test_a_hosts_list_can_be_what_pip_freezes(tmp_path: Path) -> None:
    path = tmp_path / "host.txt"
    path.write_text(
        "# here\nTorch==2.11.0+cu130\nnumpy\ntyping_extensions==4.16.0  # x\nlocal @ file:///x.whl\n-e git+x#egg=y\n\n"
    )
    assert host_packages(str(path)) == {"torch": "2.11.0", "numpy": "", "typing-extensions": "4.16.0", "local": ""}


def test_a_bad_line_of_a_host_is_named_by_number(tmp_path: Path) -> None:
    path = tmp_path / "host.txt"
    path.write_text("numpy\nnumpy>=2\n")
    with pytest.raises(UsageError, match=r"host.txt:2: 'numpy>=2'"):
        host_packages(str(path))


def test_an_unknown_host_names_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        host_packages("no-such-host")
    assert GPU_HOST in caught.value.remedy
    assert "pip freeze" in caught.value.remedy


def test_only_what_the_closure_asks_for_is_demanded_of_the_host() -> None:
    assert provided({"torch": 1, "vllm": 1}, {"torch": "2.11.0", "jax": ""}) == {"torch": "2.11.0"}


@pytest.mark.parametrize("name", presets())
def test_presets_name_packages_of_the_lock_in_the_normal_form(name: str) -> None:
    listed = host_packages(name)
    assert [normalized(package) for package in listed] == list(listed)
    assert listed.keys() <= blocks(CUDA).keys()


def test_the_bare_host_has_nothing() -> None:
    assert host_packages("bare") == {}


def test_the_gpu_host_and_the_rules_leave_what_was_measured_to_serve() -> None:
    """vllm and 86 packages made the H200 serve; the bundle brings them."""
    rules = rules_for("engine-cuda", gpu="H200")
    dropped = {package for rule in rules for package in rule.packages}
    host = provided(blocks(CUDA), host_packages(GPU_HOST))
    other_platforms = {"colorama", "pywin32", "win32-setctime", "httpx2-jsfetch"}
    carried = blocks(without(CUDA, dropped | host.keys() | other_platforms))
    assert len(carried) == 86, "vllm and all but fastar, which belongs to a rule"
    assert {"vllm", "flashinfer-python", "pydantic", "xgrammar", "quack-kernels"} <= carried.keys()
    assert dropped.isdisjoint(host), "a rule that leaves out what the host has anyway saves nothing"


def test_every_package_of_a_rule_is_in_the_lock() -> None:
    for site, lock in (("engine-cuda", CUDA), (CLIENT, client_requirements(REPOSITORY))):
        for rule in rules_for(site, gpu="H200"):
            assert set(rule.packages) <= blocks(lock).keys(), rule.name


def test_rules_say_why() -> None:
    for site in ("engine-cuda", CLIENT):
        for rule in rules_for(site, gpu="H200"):
            assert len(rule.why) > 30, rule.name


def test_rules_of_one_card_do_not_hold_for_another() -> None:
    def names(gpu: str | None) -> set[str]:
        return {rule.name for rule in rules_for("engine-cuda", gpu=gpu)}

    assert {"flash-attention-2", "nvidia-cutlass-dsl", "cuda-compiler"} <= names("H200")
    assert names("B200") == names(None)
    assert {"flash-attention-2", "nvidia-cutlass-dsl", "cuda-compiler", "fmha-sm100"}.isdisjoint(names("B200"))
    assert "video" in names("B200")


def test_a_rule_can_be_kept_away() -> None:
    kept = rules_for("engine-cuda", gpu="H200", keep=["nvidia-cutlass-dsl"])
    assert "nvidia-cutlass-dsl" not in {rule.name for rule in kept}
    assert len(kept) == len(rules_for("engine-cuda", gpu="H200")) - 1


def test_keeping_what_is_not_left_out_is_a_mistake() -> None:
    with pytest.raises(UsageError) as caught:
        rules_for("engine-cuda", gpu="H200", keep=["nvidia-cutlas-dsl"])
    assert "Did you mean nvidia-cutlass-dsl?" in caught.value.remedy


PATHS = [
    "vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so",
    "vllm/vllm_flash_attn/_vllm_fa3_C.abi3.so",
    "vllm/third_party/deep_gemm/_C.cpython-312-x86_64-linux-gnu.so",
    "vllm/third_party/deep_gemm/_C.cpython-313-x86_64-linux-gnu.so",
    "vllm/vllm-rs",
    "vllm/entrypoints/serve/instrumentator/static/swagger-ui.css",
    "vllm/third_party/fmha_sm100/a.cu",
    "mistral_common/data/tekken_240911.json",
    "pycountry/locales/de/x.mo",
    "flashinfer/data/cutlass/python/x.py",
    "flashinfer/data/cutlass/include/x.hpp",
    "jsonschema/tests/x.py",
    "pycountry/db.py",
    "bin/vllm",
    "vllm-0.26.0.dist-info/INSTALLER",
    "vllm-0.26.0.dist-info/RECORD",
]


def test_what_the_rules_leave_of_an_engine() -> None:
    dropped = leave_out(PATHS, rules_for("engine-cuda", gpu="H200"), "312")
    assert [path for path in PATHS if path not in dropped] == [
        "vllm/vllm_flash_attn/_vllm_fa3_C.abi3.so",
        "vllm/third_party/deep_gemm/_C.cpython-312-x86_64-linux-gnu.so",
        "flashinfer/data/cutlass/include/x.hpp",
        "pycountry/db.py",
        "vllm-0.26.0.dist-info/RECORD",
    ]
    assert dropped[PATHS[0]].name == "flash-attention-2"


def test_a_rule_that_matches_nothing_is_stale() -> None:
    with pytest.raises(StreamproofError, match="flash-attention-2 matches no file"):
        leave_out(PATHS[1:], rules_for("engine-cuda", gpu="H200"), "312")


@pytest.mark.parametrize(
    "text",
    [
        'name = "x"\nof = "any"\nwhy = "y"',  # nothing to leave out
        'name = "x"\nof = "any"\nwhy = "y"\npackages = ["p"]',  # no size
        'name = "x"\nof = "any"\nwhy = "y"\nfiles = ["p"]\nmegabytes = 3',
        'name = "x"\nof = "any"\nfiles = ["p"]',  # no reason
        'name = "x"\nof = "any"\nwhy = "y"\nfiles = ["p"]\nunknown = 1',
        "[",
    ],
)
def test_rules_of_another_form(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(f"[[rule]]\n{text}\n")
    with pytest.raises(StreamproofError, match="not valid"):
        rules_for("engine-cuda", gpu=None, path=path)


def test_two_rules_of_one_name(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(2 * '[[rule]]\nname = "x"\nof = "any"\nwhy = "y"\nfiles = ["p"]\n')
    with pytest.raises(StreamproofError, match="two rules are called x"):
        rules_for("engine-cuda", gpu=None, path=path)


def test_a_pattern_can_take_some_back() -> None:
    rule = Rule.model_validate({"name": "x", "of": "any", "why": "y", "files": ["*.so"], "but-not": ["*-{python}.so"]})
    assert rule.leaves_out("a/b-313.so", "312")
    assert not rule.leaves_out("a/b-312.so", "312")
    assert not rule.leaves_out("a/b.py", "312")


def test_the_rules_lie_beside_their_reader() -> None:
    assert RULES_FILE.is_file()
