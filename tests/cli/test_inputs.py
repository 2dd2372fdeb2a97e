"""Synthetic inputs run through small models of every kind that can be fed."""

from types import SimpleNamespace
from typing import Any

import pytest

from rootdk._lib.errors import ArgumentError, TargetError
from rootdk.cli._inputs import inputs_of
from rootdk.cli._loading import Request

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SMALL = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
}
TEXT = {**SMALL, "vocab_size": 64}
VISION = {**SMALL, "image_size": 8, "patch_size": 4}


def made(name: str, **config: Any) -> Any:
    model = getattr(transformers, name)
    return model(model.config_class(**config)).eval()


@pytest.mark.parametrize(
    ("name", "config", "given"),
    [
        ("LlamaForCausalLM", TEXT, {"input_ids", "attention_mask"}),
        ("GPT2Model", {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 16},
         {"input_ids", "attention_mask"}),
        ("T5ForConditionalGeneration",
         {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2, "vocab_size": 64,
          "decoder_start_token_id": 0},
         {"input_ids", "attention_mask", "decoder_input_ids"}),
        ("ViTModel", VISION, {"pixel_values"}),
        ("CLIPModel",
         {"text_config": TEXT, "vision_config": VISION, "projection_dim": 8},
         {"input_ids", "attention_mask", "pixel_values"}),
        ("ASTModel", {**SMALL, "max_length": 32, "num_mel_bins": 16, "patch_size": 8},
         {"input_values"}),
        ("WhisperModel",
         {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
          "decoder_attention_heads": 2, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16,
          "vocab_size": 64, "num_mel_bins": 8, "max_source_positions": 16,
          "max_target_positions": 16, "pad_token_id": 1, "decoder_start_token_id": 2,
          "bos_token_id": 1, "eos_token_id": 1},
         {"input_features", "decoder_input_ids"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_what_is_made_up_fits_the_model(name: str, config: Any, given: set[str]) -> None:
    model = made(name, **config)
    kwargs, remarks, _ = inputs_of(model, None, Request())
    assert set(kwargs) == given
    assert len(remarks) == 1
    with torch.no_grad():
        model(**kwargs)


def test_tokens_are_ordinary_repeatable_and_as_many_as_fit() -> None:
    model = made("LlamaModel", **TEXT, max_position_embeddings=50, pad_token_id=7)
    first, _, second_inputs = inputs_of(model, None, Request(seed=3))
    again, _, _ = inputs_of(model, None, Request(seed=3))
    other, _, _ = inputs_of(model, None, Request(seed=4))
    ids = first["input_ids"]
    assert ids.shape == (1, 50)
    assert torch.equal(ids, again["input_ids"])
    assert not torch.equal(ids, other["input_ids"])
    assert not {1, 2, 7} & set(ids.flatten().tolist())
    assert second_inputs is not None
    assert second_inputs()[1]["input_ids"].shape == (1, 37)


def test_a_model_that_wants_something_else_is_told_so() -> None:
    odd = SimpleNamespace(main_input_name="point_cloud", config=None)
    with pytest.raises(
        TargetError, match="SimpleNamespace wants point_cloud, which cannot be made"
    ):
        inputs_of(odd, None, Request())


def test_less_than_one_token_is_refused() -> None:
    with pytest.raises(ArgumentError, match="--max-tokens is 0; expected at least 1"):
        inputs_of(None, None, Request(max_tokens=0))
