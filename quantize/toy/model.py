"""The toy as a torch module: transformers' Qwen3.5-MoE decoder with the multi-token-prediction layer beside it.

transformers drops `mtp.*`, so that layer is written here, after the way the engine runs it: the layer reads the
decoder's hidden state and the embedding of the next token, and to draft further it reads its own output instead.
Needs torch and transformers, which the client's environment does not have.
"""

from __future__ import annotations

import torch  # type: ignore[import-not-found, unused-ignore]  # only in the training environment
from torch import nn  # type: ignore[import-not-found, unused-ignore]  # as above
from torch.nn import functional  # type: ignore[import-not-found, unused-ignore]  # as above
from transformers import Qwen3_5MoeTextConfig  # type: ignore[import-not-found, unused-ignore]  # as above
from transformers.integrations.moe import (  # type: ignore[import-not-found, unused-ignore]  # as above
    ALL_EXPERTS_FUNCTIONS,
)
from transformers.models.qwen3_5_moe import (  # type: ignore[import-not-found, unused-ignore]  # as above
    modeling_qwen3_5_moe as qwen,
)

from quantize.toy.shape import LANGUAGE_PREFIX, Shape, text_config

_DENSE = "dense"
_MTP_LAYER = "mtp.layers.0."
_MEMORY_RATES = (0.3, 0.03, 0.003)


def all_experts(experts: nn.Module, hidden: torch.Tensor, chosen: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Runs every expert on every token and keeps what the router chose.

    At this size that is faster than sorting tokens by expert, on CPU as on GPU, and the same on both.

    Args:
        experts: holds `gate_up_proj` [experts, 2 * width, hidden] and `down_proj` [experts, hidden, width].
        hidden: [tokens, hidden].
        chosen: expert numbers, [tokens, experts per token].
        weights: their shares, [tokens, experts per token].

    Returns:
        [tokens, hidden].
    """
    count, _, width = experts.down_proj.shape
    gate, up = functional.linear(hidden, experts.gate_up_proj.flatten(0, 1)).unflatten(-1, (count, 2, width)).unbind(-2)
    share = hidden.new_zeros(hidden.shape[0], count).scatter(1, chosen, weights.to(hidden.dtype))
    inner = functional.silu(gate) * up * share.unsqueeze(-1)
    return functional.linear(inner.flatten(1), experts.down_proj.transpose(0, 1).flatten(1))


ALL_EXPERTS_FUNCTIONS.register(_DENSE, all_experts)


class DraftLayer(nn.Module):  # type: ignore[misc, unused-ignore]  # nn.Module is Any where torch is absent
    """The multi-token-prediction layer (`mtp.*`).

    Args:
        config: the decoder's configuration.
    """

    def __init__(self, config: Qwen3_5MoeTextConfig) -> None:
        super().__init__()
        self.pre_fc_norm_embedding = qwen.Qwen3_5MoeRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.pre_fc_norm_hidden = qwen.Qwen3_5MoeRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.fc = nn.Linear(2 * config.hidden_size, config.hidden_size, bias=False)
        self.layer = qwen.Qwen3_5MoeDecoderLayer(config, config.layer_types.index("full_attention"))
        self.norm = qwen.Qwen3_5MoeRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.rotary = qwen.Qwen3_5MoeTextRotaryEmbedding(config=config)

    def forward(self, hidden: torch.Tensor, embedded: torch.Tensor, steps: int) -> list[torch.Tensor]:
        """Drafts `steps` tokens from every anchor position at once, each step fed with the true next token.

        Step s at anchor i reads the hidden state (the decoder's for s = 0, else step s - 1's output at i) and the
        embedding of token i + 1 + s, stands at position i + s and predicts token i + 2 + s. As in the engine, it sees
        the keys of step 0 up to the anchor and those of its own chain after it.

        Args:
            hidden: the decoder's normed output, [batch, tokens, hidden].
            embedded: embedding of the same tokens, [batch, tokens, hidden].
            steps: drafts per anchor, at least 1.

        Returns:
            For each step the normed output at every anchor, [batch, tokens - steps - 1, hidden]; project it with the
            embedding to get logits.
        """
        anchors = hidden.shape[1] - steps - 1
        state = hidden[:, :anchors]
        keys: list[torch.Tensor] = []
        values: list[torch.Tensor] = []
        outputs = []
        for step in range(steps):
            embedding = self.pre_fc_norm_embedding(embedded[:, step + 1 : step + 1 + anchors])
            entered = self.fc(torch.cat([embedding, self.pre_fc_norm_hidden(state)], dim=-1))
            mixed = entered + self._attend(self.layer.input_layernorm(entered), step, keys, values)
            state = self.norm(mixed + self.layer.mlp(self.layer.post_attention_layernorm(mixed)))
            outputs.append(state)
        return outputs

    def _attend(
        self, entered: torch.Tensor, step: int, keys: list[torch.Tensor], values: list[torch.Tensor]
    ) -> torch.Tensor:
        """One step of attention; appends its own keys and values ([batch, kv heads, anchors, head]) to the lists."""
        attention = self.layer.self_attn
        batch, anchors, _ = entered.shape
        by_head = (batch, anchors, -1, attention.head_dim)
        query, gate = attention.q_proj(entered).view(batch, anchors, -1, 2 * attention.head_dim).chunk(2, dim=-1)
        query = attention.q_norm(query).transpose(1, 2)
        key = attention.k_norm(attention.k_proj(entered).view(by_head)).transpose(1, 2)
        positions = torch.arange(step, step + anchors, device=entered.device).expand(3, 1, -1)
        query, key = qwen.apply_rotary_pos_emb(query, key, *self.rotary(entered, positions))
        keys.append(key)
        values.append(attention.v_proj(entered).view(by_head).transpose(1, 2))
        causal = torch.ones(anchors, anchors, dtype=torch.bool, device=entered.device).tril()
        own = torch.eye(anchors, dtype=torch.bool, device=entered.device)
        attended = functional.scaled_dot_product_attention(
            query,
            torch.cat(keys, dim=2).repeat_interleave(attention.num_key_value_groups, dim=1),
            torch.cat(values, dim=2).repeat_interleave(attention.num_key_value_groups, dim=1),
            attn_mask=torch.cat([causal] + [own] * step, dim=1),
            scale=attention.scaling,
        )
        attended = attended.transpose(1, 2).reshape(batch, anchors, -1)
        return attention.o_proj(attended * torch.sigmoid(gate.reshape(batch, anchors, -1)))


class Toy(nn.Module):  # type: ignore[misc, unused-ignore]  # as above
    """Decoder and draft layer; the embedding is also the output projection of both.

    Args:
        shape: the widths.
        end_token_id: token that ends a reply.
        pad_token_id: token that ends a document.
    """

    def __init__(self, shape: Shape, *, end_token_id: int, pad_token_id: int) -> None:
        super().__init__()
        settings = text_config(shape, end_token_id=end_token_id, pad_token_id=pad_token_id)
        config = Qwen3_5MoeTextConfig(**settings)
        config._attn_implementation = "sdpa"  # noqa: SLF001  transformers' own switch has no other name
        self.decoder = qwen.Qwen3_5MoeTextModel(config)
        self.decoder.config._experts_implementation = _DENSE  # noqa: SLF001  as above
        self.draft = DraftLayer(self.decoder.config)
        self._initialize()

    def _initialize(self) -> None:
        self.draft.apply(self.decoder._init_weights)  # noqa: SLF001  the decoder's own start, for the layer beside it
        linear = [layer.linear_attn for layer in self.decoder.layers if hasattr(layer, "linear_attn")]
        with torch.no_grad():
            # One head a layer: spread how fast the layers forget, instead of leaving it to one draw each.
            for mixer, rate in zip(linear, _MEMORY_RATES, strict=False):
                mixer.A_log.zero_()
                mixer.dt_bias.fill_(rate).expm1_().log_()  # inverse of the softplus that the layer applies

    def project(self, hidden: torch.Tensor) -> torch.Tensor:
        """Logits over the vocabulary, [..., vocab], of hidden states [..., hidden]."""
        return functional.linear(hidden, self.decoder.embed_tokens.weight)

    def tensors(self) -> dict[str, torch.Tensor]:
        """The weights under the names of the published checkpoints, see `quantize.toy.shape.tensor_shapes`."""
        found = {LANGUAGE_PREFIX + name: value for name, value in self.decoder.state_dict().items()}
        for name, value in self.draft.state_dict().items():
            if name == "layer.mlp.experts.gate_up_proj":
                for expert, pair in enumerate(value):
                    gate, up = pair.chunk(2)
                    found[f"{_MTP_LAYER}mlp.experts.{expert}.gate_proj.weight"] = gate
                    found[f"{_MTP_LAYER}mlp.experts.{expert}.up_proj.weight"] = up
            elif name == "layer.mlp.experts.down_proj":
                for expert, down in enumerate(value):
                    found[f"{_MTP_LAYER}mlp.experts.{expert}.down_proj.weight"] = down
            elif name.startswith("layer."):
                found[_MTP_LAYER + name.removeprefix("layer.")] = value
            else:
                found[f"mtp.{name}"] = value
        return found
