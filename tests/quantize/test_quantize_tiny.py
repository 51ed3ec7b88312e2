"""`just quantize tiny`, end to end: the real worker once, and a stand-in for it where the client is killed."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.engine.pins import REPOSITORY
from bench.errors import StreamproofError
from bench.report.folder_files import file_sha256
from bench.report.keys import PRIVATE_NAME, PUBLIC_NAME, trusted_keys
from quantize.attested import check_attested
from quantize.audit.folder import open_checkpoint
from quantize.audit.header import read_header
from quantize.audit.model import FILE_NAME as AUDIT
from quantize.audit.model import read_audit
from quantize.checkpoint import TOY
from quantize.hashes import Hashes
from quantize.provenance import FILE_NAME, SIGNATURE

pytestmark = pytest.mark.engine

HERE = Path(__file__).parent
NAME = "tiny-NVFP4"


class Made:
    """What the real run left, and how to run it again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out = folder / NAME
        self.work = folder / f".work-{NAME}"
        self.env = {**os.environ, "XDG_CONFIG_HOME": str(folder / "config")}
        self.keys = folder / "config" / "streamproof" / "keys"

    def run(self, *options: str, client: tuple[str, ...] = ("-m", "bench")) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *client, "quantize", "tiny", *options]
        return subprocess.run(command, cwd=REPOSITORY, env=self.env, capture_output=True, text=True, check=False)

    def stage(self, name: str) -> dict[str, object]:
        manifest: dict[str, object] = json.loads((self.work / name / "manifest.json").read_text())
        return manifest


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Installs the environment where it is missing, and quantizes the toy."""
    made = Made(tmp_path_factory.mktemp("tiny"))
    done = made.run("--out", str(made.out))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "audited and signed" in done.stdout
    return made


def worker() -> str:
    """The interpreter of the locked environment, once something has installed it."""
    found = sorted((Path.home() / ".cache" / "streamproof" / "quantize").glob("quantize-*/bin/python"))
    assert found
    return str(max(found, key=lambda path: path.lstat().st_mtime))


def contents(folder: Path, *, without: tuple[str, ...] = ()) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name not in without)
    return {path.relative_to(folder).as_posix(): file_sha256(path) for path in files}


def test_all_gates_that_need_no_serving_run_are_green(made: Made) -> None:
    audit = read_audit(made.out / AUDIT)
    assert audit.passed
    assert [gate.name.value for gate in audit.gates if gate.verdict.value != "passed"] == ["served"]
    checkpoint = open_checkpoint(made.out)
    assert not checkpoint.faults
    assert sum("mtp" in name for name in checkpoint.tensors) == 41
    assert sum(name.endswith(".weight_scale") for name in checkpoint.tensors) == 4 * 8 * 3


def test_what_is_not_weights_is_the_sources_own(made: Made) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"):
        assert (made.out / name).read_bytes() == (TOY / name).read_bytes()
    config = json.loads((made.out / "config.json").read_text())
    quantization = config.pop("quantization_config")
    assert config == json.loads((TOY / "config.json").read_text())
    ignore = json.loads((made.out / "hf_quant_config.json").read_text())["quantization"]["exclude_modules"]
    assert quantization["ignore"] == ignore
    assert {"mtp*", "lm_head"} <= set(ignore)


def test_the_tool_of_model_signing_verifies_it(made: Made) -> None:
    command = [worker(), "-m", "model_signing", "verify", "key", str(made.out)]
    options = ["--public_key", str(made.keys / PUBLIC_NAME), "--signature", str(made.out / SIGNATURE)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Verification succeeded" in done.stdout
    assert (made.keys / PRIVATE_NAME).stat().st_mode & 0o077 == 0


def test_we_verify_it(made: Made) -> None:
    trusted = trusted_keys(allow_list=None, own_folder=made.keys)
    assert check_attested(made.out, trusted, hashes=Hashes(None)).key_id in trusted


def test_manifests_say_what_went_in_and_what_it_took(made: Made) -> None:
    for stage in ("calibrate", "export"):
        manifest = made.stage(stage)
        assert manifest["environment"] == {**manifest["environment"], "locked": True}  # type: ignore[dict-item]
        assert manifest["versions"]["nvidia-modelopt"] == "0.47.0"  # type: ignore[index]
        assert manifest["peak_rss_bytes"] > 2e8  # type: ignore[operator]
    provenance = json.loads((made.out / FILE_NAME).read_text())
    assert [stage["stage"] for stage in provenance["stages"]] == ["calibrate", "export", "carry", "audit"]
    assert provenance["stages"][0]["inputs"]["model.safetensors"] == file_sha256(TOY / "model.safetensors")


def test_a_second_run_finds_everything_done(made: Made) -> None:
    before = {path: path.stat().st_mtime_ns for path in made.out.rglob("*")}
    done = made.run("--out", str(made.out))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("done before") == 6
    assert {path: path.stat().st_mtime_ns for path in made.out.rglob("*")} == before


def test_a_changed_output_is_made_again(made: Made, tmp_path: Path) -> None:
    copy = Made(tmp_path)
    shutil.copytree(made.folder, tmp_path, dirs_exist_ok=True)
    before = contents(copy.out, without=(SIGNATURE,))
    layer = copy.work / "carry" / "checkpoint" / "model-00005-of-00005.safetensors"
    raw = bytearray(layer.read_bytes())
    raw[-1] ^= 1
    layer.write_bytes(raw)
    done = copy.run("--out", str(copy.out))
    assert done.returncode == 0, done.stderr
    assert "carry: done before" not in done.stderr
    assert contents(copy.out, without=(SIGNATURE,)) == before


def test_a_layer_at_a_time_gives_what_modelopt_makes_of_the_whole_model(made: Made, tmp_path: Path) -> None:
    tokens = made.work / "calibrate" / "tokens.safetensors"
    script = [worker(), str(HERE / "whole_model.py"), str(TOY), str(tokens), "nvfp4_experts_only", "fp8"]
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run([*script, str(tmp_path)], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    whole, ours = open_checkpoint(tmp_path), open_checkpoint(made.out)
    new = [name for name in ours.tensors if name.endswith((".weight_scale", "_scale_2", ".input_scale", ".k_scale"))]
    assert len(new) == 4 * 8 * 3 * 3 + 1
    packed = [name.removesuffix("_scale") for name in new if name.endswith(".weight_scale")]
    for name in new + packed:
        theirs, mine = whole.tensors[name], ours.tensors[name]
        assert (theirs.dtype, theirs.shape) == (mine.dtype, mine.shape)
        a = (tmp_path / theirs.shard).read_bytes()[theirs.offset : theirs.offset + theirs.size]
        b = (made.out / mine.shard).read_bytes()[mine.offset : mine.offset + mine.size]
        assert a == b, name
    assert not any("mtp" in name for name in whole.tensors)  # what is lost without the stage `carry`


@pytest.fixture
def stub(made: Made, tmp_path: Path) -> Path:
    """An interpreter that copies the real worker's results; `kill` beside it, when it is there, names where to die."""
    script = tmp_path / "python"
    lines = (
        "#!/bin/sh",
        f"export STUB_REAL_PYTHON={worker()} STUB_RESULTS={made.work}",
        f"[ -f {tmp_path}/kill ] && export STUB_KILL=$(cat {tmp_path}/kill)",
        f'exec {sys.executable} {HERE / "stub_worker.py"} "$@"',
    )
    script.write_text("\n".join(lines) + "\n")
    script.chmod(0o755)
    return script


def test_a_failed_audit_leaves_the_checkpoint_unsigned(made: Made, stub: Path, tmp_path: Path) -> None:
    shutil.copytree(made.work, tmp_path / "damaged")
    layer = tmp_path / "damaged" / "export" / "layer-00002.safetensors"
    with layer.open("rb") as file:
        tensors = read_header(file.fileno(), layer.stat().st_size, layer.name)
    scale = next(tensor for tensor in tensors if tensor.name.endswith("experts.3.up_proj.weight_scale"))
    raw = bytearray(layer.read_bytes())
    raw[scale.offset] = 0x7F  # NaN in E4M3
    layer.write_bytes(raw)
    stub.write_text(stub.read_text().replace(str(made.work), str(tmp_path / "damaged")))
    done = made.run("--out", str(tmp_path / NAME), "--python", str(stub))
    assert done.returncode == 3, done.stdout + done.stderr
    assert "NOT signed" in done.stdout
    assert not (tmp_path / NAME / SIGNATURE).exists()
    assert not json.loads((tmp_path / NAME / FILE_NAME).read_text())["audited"]
    with pytest.raises(StreamproofError, match="its audit failed"):
        check_attested(tmp_path / NAME, trusted_keys(allow_list=None, own_folder=made.keys), hashes=Hashes(None))


@pytest.mark.parametrize("moment", [2, 9, 17, 30, 38, 46, 55])
def test_a_client_that_died_at_any_write_is_taken_up_to_the_same_bytes(
    made: Made, stub: Path, tmp_path: Path, moment: int
) -> None:
    options = ("--out", str(tmp_path / NAME), "--python", str(stub))
    died = made.run(*options, client=(str(HERE / "dying_client.py"), str(moment)))
    assert died.returncode == 9, died.stdout + died.stderr
    if (tmp_path / NAME).exists():  # then it is whole
        trusted = trusted_keys(allow_list=None, own_folder=made.keys)
        check_attested(tmp_path / NAME, trusted, hashes=Hashes(None))
    done = made.run(*options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert contents(tmp_path / NAME, without=(SIGNATURE, FILE_NAME)) == contents(
        made.out, without=(SIGNATURE, FILE_NAME)
    )


@pytest.mark.parametrize(("stage", "files"), [("calibrate", 3), ("export", 5)])
def test_a_stage_goes_on_with_what_its_worker_had_finished(
    made: Made, stub: Path, tmp_path: Path, stage: str, files: int
) -> None:
    (tmp_path / "kill").write_text(f"{stage}:{files}")
    options = ("--out", str(tmp_path / NAME), "--python", str(stub))
    died = made.run(*options)
    assert died.returncode == -signal.SIGKILL
    partial = tmp_path / f".work-{NAME}" / f".{stage}.partial"
    kept = {path: path.stat().st_ino for path in partial.iterdir() if not path.name.startswith(".")}
    (tmp_path / "kill").unlink()
    done = made.run(*options)
    assert f"{stage}: goes on from an earlier attempt" in done.stderr
    assert done.returncode == 0, done.stdout + done.stderr
    for path, inode in kept.items():
        if path.suffix == ".safetensors" and path.name != "tokens.safetensors":
            assert (partial.with_name(stage) / path.name).stat().st_ino == inode
    assert contents(tmp_path / NAME, without=(SIGNATURE, FILE_NAME)) == contents(
        made.out, without=(SIGNATURE, FILE_NAME)
    )


@pytest.mark.thorough
def test_a_killed_client_leaves_no_worker_and_the_next_gets_the_same_bytes(made: Made, tmp_path: Path) -> None:
    out, work = tmp_path / NAME, tmp_path / f".work-{NAME}"
    command = [sys.executable, "-m", "bench", "quantize", "tiny", "--out", str(out)]
    client = subprocess.Popen(command, cwd=REPOSITORY, env=made.env, stderr=subprocess.DEVNULL)
    begun = work / ".calibrate.partial" / "activations-00002.safetensors"
    while not begun.exists() and client.poll() is None:
        time.sleep(0.01)
    client.kill()
    client.wait()
    while _workers(work):  # they end with their client; a test that hangs here has found a leak
        time.sleep(0.01)
    done = made.run("--out", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "calibrate: goes on" in done.stderr
    assert contents(out, without=(SIGNATURE,)) == contents(made.out, without=(SIGNATURE,))


def _workers(work: Path) -> list[str]:
    found = []
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = command.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if "quantize.worker" in line and str(work) in line:
            found.append(line)
    return found
