"""The toy's tokenizer: byte-level BPE with Qwen's way of cutting text, trained on the workload's own words.

The same text gives the same bytes: training is a count of pairs, and its ties are broken by token id.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

END_OF_TEXT: Final = "<|endoftext|>"
TURN_START: Final = "<|im_start|>"
TURN_END: Final = "<|im_end|>"

SPECIAL_TOKENS: Final = (
    END_OF_TEXT,
    TURN_START,
    TURN_END,
    "<|image_pad|>",
    "<|video_pad|>",
    "<|vision_start|>",
    "<|vision_end|>",
)
"""Tokens that mark structure; they are left out of a decoded reply. The last four only keep the configuration honest:
the architecture has a vision tower, this checkpoint does not."""

PLAIN_TOKENS: Final = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
"""Tokens of their own that are part of a decoded reply."""

VISION_TOKEN: Final = "<|image_pad|>"  # noqa: S105  a name in a vocabulary, not a secret

WORDS: Final = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"  # English contractions
    r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+"  # a word with the space or mark before it
    r"|\p{N}"  # digits one by one
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"  # punctuation
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"  # line ends, then other space
)
"""How Qwen3.5 cuts text before merging bytes; no token crosses a cut."""

CHAT_TEMPLATE: Final = Path(__file__).with_name("chat_template.jinja")
"""Source of the checkpoint's chat template."""


def train(texts: Iterable[str], *, vocab: int) -> Tokenizer:
    """Trains the tokenizer.

    Args:
        texts: what to learn merges from.
        vocab: size of the whole vocabulary, added tokens included.

    Returns:
        A tokenizer whose ids are 0 to `vocab` - 1, the added tokens last.

    Raises:
        ValueError: the texts hold too few repeated pairs to fill the vocabulary.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    added = len(SPECIAL_TOKENS) + len(PLAIN_TOKENS)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab - added,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in PLAIN_TOKENS])
    size = tokenizer.get_vocab_size()
    if size != vocab:
        raise ValueError(f"the texts filled {size} of {vocab} vocabulary entries: train on more text")
    return tokenizer


def token_id(tokenizer: Tokenizer, token: str) -> int:
    """The id of a token that must exist.

    Raises:
        KeyError: it does not.
    """
    found = tokenizer.token_to_id(token)
    if found is None:
        raise KeyError(token)
    return int(found)


def tokenizer_config(context: int) -> dict[str, Any]:
    """`tokenizer_config.json`: which class loads `tokenizer.json`, and the roles of its tokens.

    Args:
        context: longest sequence of the model.

    Returns:
        The configuration, ready for JSON.
    """
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": context,
        "eos_token": TURN_END,
        "pad_token": END_OF_TEXT,
        "bos_token": None,
        "unk_token": None,
        "clean_up_tokenization_spaces": False,
    }


def generation_config(tokenizer: Tokenizer) -> dict[str, Any]:
    """`generation_config.json`: greedy, and a reply ends with its turn or the document.

    Args:
        tokenizer: the checkpoint's tokenizer.

    Returns:
        The configuration, ready for JSON.
    """
    return {
        "do_sample": False,
        "eos_token_id": [token_id(tokenizer, TURN_END), token_id(tokenizer, END_OF_TEXT)],
        "pad_token_id": token_id(tokenizer, END_OF_TEXT),
    }
