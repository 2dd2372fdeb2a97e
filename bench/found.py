"""The faults of docs/found.md, each shown without rootdk, by the library's own outputs alone.

    python bench/found.py [NAME]

Every figure that the page gives beside rootdk's is printed by one of these.
"""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Callable
from typing import Any

import torch

os.environ.setdefault("HF_HUB_OFFLINE", "1")

SEED = 0


def both(kind: Any, config: Any) -> tuple[Any, Any]:
    """The same random weights under eager attention and under sdpa."""
    torch.manual_seed(SEED)
    eager, sdpa = (
        # A configuration holds the implementation, so two models need two.
        kind._from_config(copy.deepcopy(config), attn_implementation=name).eval()
        for name in ("eager", "sdpa")
    )
    sdpa.load_state_dict(eager.state_dict())
    return eager, sdpa


@torch.no_grad()
def nemotron_asr_streaming() -> None:
    """Eager attention takes an additive mask for a boolean one, and forbids what is visible."""
    from transformers import AutoModel
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    config = CONFIG_MAPPING["nemotron_asr_streaming_encoder"](
        hidden_size=256, num_hidden_layers=1, num_attention_heads=4, intermediate_size=256
    )
    kind = AutoModel._model_mapping[type(config)]
    eager, sdpa = both(kind, config)
    x = torch.randn(1, 128, config.num_mel_bins)
    for name, model in (("eager", eager), ("sdpa", sdpa)):
        out = model(input_features=x).last_hidden_state
        print(f"{name}: {int(out.isnan().sum())} of {out.numel()} outputs are NaN")


@torch.no_grad()
def grounding_dino() -> None:
    """The text backbone's mask is boolean, and eager attention adds it to the scores."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=300, hidden_size=64, num_hidden_layers=1, num_attention_heads=4,
        intermediate_size=64,
    )  # fmt: skip
    torch.manual_seed(SEED)
    backbone = BertModel(config, add_pooling_layer=False).eval()
    ids = torch.randint(5, 300, (1, 6))
    # As in the model: each phrase sees itself only.
    mask = torch.zeros(1, 6, 6, dtype=torch.bool)
    mask[:, :3, :3] = mask[:, 3:, 3:] = True
    changed = ids.clone()
    changed[0, 3:] = torch.randint(5, 300, (3,))
    for name in ("eager", "sdpa"):
        backbone.set_attn_implementation(name)
        one, two = (backbone(i, mask[:, None]).last_hidden_state[0, :3] for i in (ids, changed))
        moved = float((one - two).abs().max())
        print(f"{name}: the first phrase moves by {moved:.3g} when only the second changes")


@torch.no_grad()
def grounding_dino_itself() -> None:
    """The same on the whole model's own call of its backbone: what mask it hands over."""
    from transformers import GroundingDinoConfig
    from transformers.models.grounding_dino import modeling_grounding_dino as code

    ids = torch.tensor([[101, 2003, 1012, 2004, 1012, 102]])
    separators = torch.tensor([101, 102, 1012, 1029])
    mask, _ = code.generate_masks_with_special_tokens_and_transfer_map(ids, separators)
    print(f"mask handed to the backbone: {mask.dtype}, {int((~mask).sum())} entries forbidden")
    print(f"backbone of {GroundingDinoConfig().text_config.model_type}")


@torch.no_grad()
def phi4_multimodal_vision() -> None:
    """is_causal is set on an image encoder: sdpa without a mask is causal, eager is not."""
    from transformers.models.phi4_multimodal.configuration_phi4_multimodal import (
        Phi4MultimodalVisionConfig,
    )
    from transformers.models.phi4_multimodal.modeling_phi4_multimodal import (
        Phi4MultimodalVisionModel,
    )

    config = Phi4MultimodalVisionConfig(
        hidden_size=64, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4,
        image_size=56, crop_size=56, patch_size=14,
    )  # fmt: skip
    eager, sdpa = both(Phi4MultimodalVisionModel, config)
    for model in (eager, sdpa):
        for layer in model.encoder.layers:  # far from saturated, so that every key counts
            layer.self_attn.q_proj.weight.mul_(0.01)
    image = torch.randn(1, 3, 56, 56)
    changed = image.clone()
    changed[:, :, 42:, 42:] = 0.0
    for name, model in (("eager", eager), ("sdpa", sdpa)):
        one, two = (model(i).last_hidden_state[0] for i in (image, changed))
        still = int(((one - two).abs().amax(-1) == 0).sum())
        print(f"{name}: {still} of {len(one)} patches do not see a change of the last patch")


@torch.no_grad()
def x_clip() -> None:
    """The prompt generator's projections are initialised with standard deviation 1."""
    from transformers import XCLIPConfig, XCLIPModel

    torch.manual_seed(SEED)
    model = XCLIPModel._from_config(XCLIPConfig())
    attention = model.prompts_generator.decoder[0].cross_attn
    width = attention.q_proj.in_features
    print(f"q_proj of the prompt generator: std {attention.q_proj.weight.std():.3g}, {width} wide")
    x = torch.nn.functional.layer_norm(torch.randn(1, 50, width), (width,))
    heads = attention.num_heads
    q, k = (
        f(x).view(1, 50, heads, -1).transpose(1, 2) for f in (attention.q_proj, attention.k_proj)
    )
    scores = q @ k.mT * q.shape[-1] ** -0.5
    print(f"scores spread by {scores.std():.3g}; largest weight {scores.softmax(-1).max():.3g} "
          f"(mean over rows {scores.softmax(-1).amax(-1).mean():.3g})")  # fmt: skip
    other = model.text_model.encoder.layers[0].self_attn.q_proj.weight
    print(f"q_proj of the text model: std {other.std():.3g}")


@torch.no_grad()
def torchvision_maxvit() -> None:
    """Which scale reproduces the module's own output: 1/√head_dim or 1/√(all heads)."""
    from wild import operators

    operators.declare()
    from torchvision.models.maxvit import RelativePositionalMultiHeadAttention

    torch.manual_seed(SEED)
    width, head_dim, places = 96, 24, 49
    layer = RelativePositionalMultiHeadAttention(width, head_dim, places).eval()
    x = torch.randn(1, 1, places, width)
    q, k, v = (
        y.view(places, width // head_dim, head_dim).transpose(0, 1)
        for y in layer.to_qkv(x)[0, 0].chunk(3, -1)
    )
    bias = layer.get_relative_positional_bias()[0]
    seen = layer(x)[0, 0]
    for scale, word in ((head_dim**-0.5, "1/√head_dim"), (width**-0.5, "1/√(heads·head_dim)")):
        out = ((q @ k.mT * scale + bias).softmax(-1) @ v).transpose(0, 1).reshape(places, width)
        gap = (layer.merge(out) - seen).abs().max() / seen.abs().max()
        print(f"{word}: output differs by {gap:.1e} of its largest entry")


@torch.no_grad()
def chronos_2() -> None:
    """What the model's own initialisation means, and what construction leaves."""
    from wild import operators

    operators.declare()
    from chronos.chronos2 import Chronos2CoreConfig, Chronos2Model

    torch.manual_seed(SEED)
    width, heads, head_dim, factor = 768, 12, 64, 0.05
    model = Chronos2Model(
        Chronos2CoreConfig(
            d_model=width, d_kv=head_dim, d_ff=128, num_layers=1, num_heads=heads, vocab_size=2,
            initializer_factor=factor,
            chronos_config={
                "context_length": 64, "output_patch_size": 8, "input_patch_size": 8,
                "input_patch_stride": 8, "quantiles": [0.1, 0.5, 0.9], "use_reg_token": True,
            },
        )
    ).eval()  # fmt: skip
    attention = model.encoder.block[0].layer[0].self_attention
    x = torch.randn(1, 64, width)
    for when in ("after construction", "after _init_weights called by hand"):
        q, k = (f(x).view(1, 64, heads, -1).transpose(1, 2) for f in (attention.q, attention.k))
        print(
            f"{when}: q std {attention.q.weight.std():.3g}, scores spread by {(q @ k.mT).std():.3g}"
        )
        model._init_weights(attention)
    print(f"meant: q std {factor * (width * head_dim) ** -0.5:.3g}")


FAULTS: dict[str, Callable[[], None]] = {
    f.__name__: f
    for f in (
        nemotron_asr_streaming,
        grounding_dino,
        grounding_dino_itself,
        phi4_multimodal_vision,
        x_clip,
        torchvision_maxvit,
        chronos_2,
    )
}


def main() -> None:
    import transformers

    print(f"transformers {transformers.__version__}, torch {torch.__version__}")
    for name in sys.argv[1:] or FAULTS:
        print(f"\n{name}")
        try:
            FAULTS[name]()
        except ModuleNotFoundError as missing:
            print(f"not shown: {missing.name} is not installed")


if __name__ == "__main__":
    main()
