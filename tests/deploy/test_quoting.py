"""No value of a recipe can become structure: in YAML, in Kubernetes' expansion, in bash, in a comment."""

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from bench.deploy.quoting import comment, kubernetes_string, shell_word, yaml_lines, yaml_string
from bench.errors import UsageError
from tests.deploy.hostile import WORST, as_array, bash_words, expanded, texts


@given(texts)
def test_any_text_is_one_yaml_scalar_on_one_line(text: str) -> None:
    written = yaml_string(text)
    assert written.isascii()
    assert written.isprintable()
    assert yaml.safe_load(f"key: {written}") == {"key": text}
    assert yaml.safe_load(f"{{flow: {written}, {written}: [{written}]}}") == {"flow": text, text: [text]}


@given(texts, st.integers(1, 12))
@example("  two\n\n tabs\t\n\n", 4)
@example("ends with a backslash \\", 2)
def test_any_text_is_one_yaml_scalar_on_many_lines(text: str, indent: int) -> None:
    written = yaml_lines(text, indent)
    assert len(written.split("\n")) == text.count("\n") + 2
    assert yaml.safe_load(f"key: {written}\nnext: 1") == {"key": text, "next": 1}


@given(texts, st.dictionaries(st.text("ABC_", min_size=1, max_size=4), texts, max_size=3))
@example("$(VLLM_API_KEY)", {"VLLM_API_KEY": "secret"})
@example("$$(VLLM_API_KEY) $", {"VLLM_API_KEY": "secret"})
def test_a_container_gets_any_text_as_it_is_whatever_its_variables_are(text: str, variables: dict[str, str]) -> None:
    assert expanded(yaml.safe_load(kubernetes_string(text)), variables) == text


def test_without_the_filter_a_key_would_be_shown() -> None:
    assert expanded(yaml.safe_load(yaml_string("$(VLLM_API_KEY)")), {"VLLM_API_KEY": "secret"}) == "secret"


@given(st.lists(texts, min_size=1, max_size=8))
@example(WORST)
def test_any_texts_are_as_many_words_for_bash(words: list[str]) -> None:
    written = [shell_word(word) for word in words]
    assert all(word.isascii() and word.isprintable() for word in written)
    assert bash_words(as_array(written)) == words


@given(st.text(max_size=40))
@example("\ud800")
@example("a\nb: c")
@example("\u2028kind: Secret")
def test_any_text_stays_in_its_comment(text: str) -> None:
    line = f"# {comment(text)}"
    assert line.isascii()
    assert len(line.splitlines()) == 1
    assert yaml.safe_load(f"{line}\na: 1") == {"a": 1}


def test_a_comment_says_what_is_not_printable() -> None:
    assert comment("one\ntwo é \\") == r"one\ntwo \xe9 \\"[:-1]


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_what_no_program_can_be_given_is_refused(text: str) -> None:
    for quote in (yaml_string, kubernetes_string, shell_word):
        with pytest.raises(UsageError, match="no program can be given"):
            quote(text)
    with pytest.raises(UsageError, match="no program can be given"):
        yaml_lines(text, 2)
