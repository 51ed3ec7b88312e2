"""`just deploy` as its user calls it: files, streams, wrong words."""

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from bench.cli import app
from bench.deploy.command import FORMS
from bench.errors import Exit, StreamproofError, UsageError
from tests.deploy.hostile import CLIENT

runner = CliRunner()
NUL = 'engine.env.X="a\\u0000b"'


def deploy(*arguments: str) -> str:
    """Standard output.

    Raises:
        StreamproofError: as the command does.
    """
    done = runner.invoke(app, ["deploy", *arguments])
    if isinstance(done.exception, StreamproofError):
        raise done.exception
    assert done.exit_code == Exit.OK, done.output
    return done.stdout


def test_a_stream_holds_what_is_applied_at_once() -> None:
    stream = deploy("h200-fp8", "--as", "kubernetes", "--client-image", CLIENT)
    kinds = [one["kind"] for one in yaml.safe_load_all(stream)]
    assert kinds.count("Deployment") == kinds.count("Job") == kinds.count("Service") == 1
    assert "Pod" not in kinds


def test_a_folder_holds_every_file(tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    assert deploy("h200-fp8", "--as", "kubernetes", "--client-image", CLIENT, "--out", str(out)) == ""
    assert sorted(path.name for path in out.iterdir()) == ["client.yaml", "engine.yaml", "reports.yaml"]
    for form, name in (("slurm", "h200-fp8.sbatch"), ("skypilot", "h200-fp8.sky.yaml")):
        deploy("h200-fp8", "--as", form, "--out", str(out))
        assert (out / name).read_text() == deploy("h200-fp8", "--as", form)


def test_the_same_recipe_gives_the_same_files() -> None:
    first, second = (deploy("b200-nvfp4", "--as", "kubernetes", "--client-image", CLIENT) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("form", FORMS)
def test_overrides_reach_the_run_in_the_cluster(form: str) -> None:
    client = ["--client-image", CLIENT] if form == "kubernetes" else []
    assert "load.turn_gap.mean_s=8" in deploy("h200-fp8", "--as", form, "--set", "load.turn_gap.mean_s=8", *client)


@pytest.mark.parametrize("form", FORMS)
def test_every_file_says_what_nobody_has_verified(form: str) -> None:
    client = ["--client-image", CLIENT] if form == "kubernetes" else []
    head = deploy("h200-fp8", "--as", form, *client).partition("\n\n")[0][:1500]
    assert {
        "kubernetes": "No cluster with GPUs has run it",
        "slurm": "no host with GPUs has run it",
        "skypilot": "nothing has been",
    }[form] in " ".join(head.replace("\n# ", " ").split())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["cpu", "--as", "kubernetes"], "runs on the CPU"),
        (["cpu", "--as", "slurm"], "runs on the CPU"),
        (["h200-fp8", "--as", "nomad"], "there is no such form"),
        (["h200-fp9", "--as", "slurm"], "There is no recipe h200-fp9"),
        (["h200-fp8", "--as", "slurm", "--set", "load.ramp=3"], "unknown key load.ramp"),
        (["h200-fp8", "--as", "kubernetes"], "has no digest that a cluster could pull"),
        (["h200-fp8", "--as", "kubernetes", "--client-image", "bench:latest"], "does not say which image"),
        (["h200-fp8", "--as", "kubernetes", "--engine-only", "--image", "vllm:v1"], "does not say which image"),
        (["h200-fp8", "--as", "kubernetes", "--engine-only", "--client-image", CLIENT], "--client-image means nothing"),
        (["h200-fp8", "--as", "slurm", "--image", CLIENT], "--image means nothing as slurm"),
        (["h200-fp8", "--as", "skypilot", "--client-image", CLIENT], "--client-image means nothing as skypilot"),
        (["h200-fp8", "--as", "skypilot", "--gpu-label", "X"], "--gpu-label means nothing as skypilot"),
        (["h200-fp8", "--as", "slurm", "--engine-only"], "--engine-only means nothing as slurm"),
        (["h200-fp8", "--as", "kubernetes", "--engine-only", "--set", NUL], "no program can be given"),
    ],
)
def test_wrong_words_are_told_with_a_remedy(arguments: list[str], says: str) -> None:
    with pytest.raises(UsageError, match=says) as error:
        deploy(*arguments)
    assert error.value.remedy


def test_another_label_of_the_nodes() -> None:
    stream = deploy("h200-fp8", "--as", "kubernetes", "--engine-only", "--gpu-label", "NVIDIA-H200-NVL")
    (pod,) = (one["spec"]["template"]["spec"] for one in yaml.safe_load_all(stream) if one["kind"] == "Deployment")
    assert pod["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-H200-NVL"}


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StreamproofError, match="cannot be written") as error:
        deploy("h200-fp8", "--as", "slurm", "--out", str(tmp_path / "file" / "folder"))
    assert error.value.exit_code == Exit.FAILURE


def test_the_form_must_be_named_and_help_teaches_all_of_them() -> None:
    assert runner.invoke(app, ["deploy", "h200-fp8"]).exit_code == Exit.USAGE
    helped = runner.invoke(app, ["deploy", "--help"], env={"COLUMNS": "200"}).output
    assert all(form in helped for form in (*FORMS, "--client-image", "sbatch", "sky launch", "engine.yaml"))
