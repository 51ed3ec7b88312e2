import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bench.cli import app
from bench.errors import UsageError
from bench.report import keys, verify_show

RUNNER = CliRunner()


@pytest.fixture(autouse=True)
def places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A user without a key, and a checkout that trusts nobody."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("COLUMNS", "220")
    monkeypatch.setattr(verify_show, "ALLOW_LIST", tmp_path / "keys")
    return tmp_path


def keys_command(*arguments: str) -> str:
    done = RUNNER.invoke(app, ["keys", *arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def listed() -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(keys_command("list", "--json"))
    return found


def test_nobody_is_trusted_at_first_and_looking_makes_no_key(places: Path) -> None:
    assert keys_command("list").startswith("Nobody is trusted here, and you have no key yet")
    assert not (places / "config").exists()


def test_a_key_from_its_making_to_its_end(places: Path) -> None:
    said = keys_command("new")
    first = keys.own_signer().key_id
    assert f"Your key: {first}" in said
    assert str(keys.keys_folder() / "signer.pub.pem") in said
    assert listed() == [{"name": first, "origin": "your own key", "whose": "", "state": "trusted"}]

    said = keys_command("rotate", "--why", "a year is over")
    second = keys.own_signer().key_id
    assert first in said
    assert f"just keys revoke {first[:16]} --reason superseded" in said
    mine, former = listed()
    assert (mine["name"], mine["state"]) == (second, "trusted")
    assert former["name"] == first
    assert "(superseded, a year is over); what it signed before still counts" in former["state"]
    assert not (places / "keys").exists()  # the checkout is nobody's but the people's who commit to it


def test_somebody_elses_key_is_added_limited_and_revoked(places: Path) -> None:
    other = keys.own_signer(places / "other").key_id
    pem = str(places / "other" / "signer.pub.pem")
    said = keys_command("add", pem, "--whose", "the lab", "--not-before", "2026-01-01", "--not-after", "2099-12-31")
    assert "Commit it" in said
    (line,) = listed()
    assert line == {
        "name": other,
        "origin": f"keys/{other[:16]}.pem",
        "whose": "the lab",
        "state": "trusted until 2099-12-31",
    }
    text = keys_command("list")
    assert other in text
    assert "the lab" in text

    keys_command("revoke", other[:12], "--reason", "compromised", "--why", "stolen", "--on", "2026-06-01")
    (line,) = listed()
    assert line["state"] == "revoked on 2026-06-01 (compromised, stolen); nothing it signed counts"


def test_an_identity_is_added_and_revoked() -> None:
    name = "https://github.com/o/r/.github/workflows/x.yml@refs/tags/*"
    keys_command("add", "--identity", name, "--issuer", "https://i.example", "--whose", "the release")
    (line,) = listed()
    assert (line["name"], line["whose"]) == (f"{name}, says https://i.example", "the release")
    keys_command("revoke", name, "--reason", "ceased")
    assert "revoked on " in listed()[0]["state"]


def test_times_that_are_over_or_not_yet_come_are_told(places: Path) -> None:
    for name, option, day in (("a", "--not-after", "2026-01-31"), ("b", "--not-before", "2099-01-01")):
        keys.own_signer(places / name)
        keys_command("add", str(places / name / "signer.pub.pem"), "--whose", name, option, day)
    states = {line["whose"]: line["state"] for line in listed()}
    assert states == {
        "a": "expired after 2026-01-31; what it signed before still counts",
        "b": "trusted from 2099-01-01 on",
    }


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["add", "--whose", "x"], "takes either a PEM file, or both"),
        (["add", "x.pem", "--identity", "a@b", "--issuer", "https://i", "--whose", "x"], "takes either"),
        (["add", "--identity", "a@b", "--whose", "x"], "takes either"),
        (["add", "x.pem", "--whose", "x", "--not-after", "tomorrow"], "tomorrow is no day"),
        (["revoke", "x", "--reason", "ceased"], "has no key called x"),
    ],
)
def test_wrong_usage_says_what_is_wrong(arguments: list[str], why: str) -> None:
    with pytest.raises(UsageError, match=why) as caught:
        keys_command(*arguments)
    assert caught.value.remedy


@pytest.mark.parametrize("command", [["revoke", "x"], ["rotate"]])
def test_a_reason_is_one_of_three(command: list[str]) -> None:
    done = RUNNER.invoke(app, ["keys", *command, "--reason", "tired"])
    assert done.exit_code == 2
    assert "compromised" in done.output


def test_what_stands_in_a_list_is_no_markup(places: Path) -> None:
    keys.own_signer(places / "other")
    keys_command("add", str(places / "other" / "signer.pub.pem"), "--whose", "[red]the lab[/]")
    assert "[red]the lab[/]" in keys_command("list")
