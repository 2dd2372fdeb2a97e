"""Sequence packages: diffusers, sentence-transformers, esm, efficient attention of many kinds."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import torch

from wild.case import Made, add, case

X = (2, 64, 96)


def _processor(name: str, options: dict[str, Any], cross: bool) -> Made:
    from diffusers.models import attention_processor

    model = attention_processor.Attention(96, heads=4, dim_head=24, **options).eval()
    model.set_processor(getattr(attention_processor, name)())
    kwargs = {"encoder_hidden_states": torch.randn(2, 13, 96)} if cross else {}
    return Made(model, (torch.randn(2, 21, 96),), kwargs)


for _title, _given in {
    "Attention, by hand": ("AttnProcessor", {}, False),
    "Attention, sdpa": ("AttnProcessor2_0", {}, False),
    "Attention, cross": ("AttnProcessor2_0", {"cross_attention_dim": 96}, True),
    "Attention, unscaled": ("AttnProcessor", {"scale_qk": False}, False),
    "Attention, upcast": ("AttnProcessor", {"upcast_attention": True}, False),
    "Attention, normalised": ("AttnProcessor2_0", {"qk_norm": "rms_norm"}, False),
}.items():
    add("diffusers", _title, partial(_processor, *_given))


@case("diffusers", "UNet2DConditionModel")
def _unet() -> Made:
    from diffusers import UNet2DConditionModel

    model = UNet2DConditionModel(
        sample_size=16, block_out_channels=(32, 64), layers_per_block=1, norm_num_groups=8,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), cross_attention_dim=48,
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"), attention_head_dim=8,
    ).eval()  # fmt: skip
    return Made(model, (torch.randn(1, 4, 16, 16), 3, torch.randn(1, 13, 48)))


@case("diffusers", "DiTTransformer2DModel")
def _dit() -> Made:
    from diffusers import DiTTransformer2DModel

    model = DiTTransformer2DModel(
        num_attention_heads=4, attention_head_dim=24, in_channels=4, num_layers=2, sample_size=16,
        num_embeds_ada_norm=10,
    ).eval()  # fmt: skip
    kwargs = {"timestep": torch.tensor([3]), "class_labels": torch.tensor([1])}
    return Made(model, (torch.randn(1, 4, 16, 16),), kwargs)


@case("diffusers", "SD3Transformer2DModel")
def _sd3() -> Made:
    from diffusers import SD3Transformer2DModel

    model = SD3Transformer2DModel(
        sample_size=16, patch_size=2, in_channels=4, num_layers=2, attention_head_dim=24,
        num_attention_heads=4, joint_attention_dim=48, caption_projection_dim=96,
        pooled_projection_dim=32, out_channels=4, pos_embed_max_size=16,
    ).eval()  # fmt: skip
    kwargs = {
        "encoder_hidden_states": torch.randn(1, 13, 48),
        "pooled_projections": torch.randn(1, 32),
        "timestep": torch.tensor([3]),
    }
    return Made(model, (torch.randn(1, 4, 16, 16),), kwargs)


@case("diffusers", "FluxTransformer2DModel")
def _flux() -> Made:
    from diffusers import FluxTransformer2DModel

    model = FluxTransformer2DModel(
        in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=24,
        num_attention_heads=4, joint_attention_dim=48, pooled_projection_dim=32,
        axes_dims_rope=(8, 8, 8),
    ).eval()  # fmt: skip
    kwargs = {
        "hidden_states": torch.randn(1, 16, 4),
        "encoder_hidden_states": torch.randn(1, 13, 48),
        "pooled_projections": torch.randn(1, 32),
        "timestep": torch.tensor([0.5]),
        "img_ids": torch.arange(48).view(16, 3) % 4,
        "txt_ids": torch.zeros(13, 3),
    }
    return Made(model, (), kwargs)


@case("sentence-transformers", "mean of a small BERT")
def _sentences() -> Made:
    from sentence_transformers import SentenceTransformer, models
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder = Path(tempfile.mkdtemp())
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"]
    (folder / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    config = BertConfig(vocab_size=13, hidden_size=96, num_hidden_layers=2, num_attention_heads=4,
                        intermediate_size=128)  # fmt: skip
    BertModel(config).save_pretrained(folder)
    first = models.Transformer(str(folder))
    model = SentenceTransformer(modules=[first, models.Pooling(96)], device="cpu").eval()
    ids = torch.randint(5, 13, (2, 21))
    return Made(model, ({"input_ids": ids, "attention_mask": torch.ones_like(ids)},))


@case("fair-esm", "ESM2")
def _esm2() -> Made:
    from esm.model.esm2 import ESM2

    return Made(ESM2(num_layers=2, embed_dim=96, attention_heads=4).eval(),
                (torch.randint(4, 24, (2, 21)),))  # fmt: skip


@case("fair-esm", "MSA transformer, row and column attention")
def _msa() -> Made:
    from esm.axial_attention import ColumnSelfAttention

    return Made(ColumnSelfAttention(96, 4).eval(), (torch.randn(5, 21, 1, 96),))


@case("fair-esm", "tied row attention")
def _rows() -> Made:
    from esm.axial_attention import RowSelfAttention

    return Made(RowSelfAttention(96, 4).eval(), (torch.randn(5, 21, 1, 96),))


def _layer(module: str, kind: str, options: dict[str, Any], shape: tuple[int, ...]) -> Made:
    import importlib

    made = getattr(importlib.import_module(module), kind)
    return Made(made(**options).eval(), (torch.randn(shape),))


def _language(module: str, kind: str, options: dict[str, Any], length: int) -> Made:
    import importlib

    made = getattr(importlib.import_module(module), kind)
    return Made(made(**options).eval(), (torch.randint(0, 200, (1, length)),))


_LAYERS: dict[tuple[str, str], tuple[str, str, dict[str, Any], tuple[int, ...]]] = {
    ("performer-pytorch", "SelfAttention"): (
        "performer_pytorch", "SelfAttention", {"dim": 96, "heads": 4, "dim_head": 24}, X),
    ("performer-pytorch", "two local heads"): (
        "performer_pytorch", "SelfAttention", {
            "dim": 96, "heads": 4, "dim_head": 24, "local_heads": 2, "local_window_size": 16}, X),
    ("linear-attention-transformer", "two local heads"): (
        "linear_attention_transformer", "LinearAttentionTransformer", {
            "dim": 96, "depth": 1, "heads": 4, "max_seq_len": 64, "n_local_attn_heads": 2,
            "local_attn_window_size": 16}, X),
    ("local-attention", "LocalMHA"): (
        "local_attention.transformer", "LocalMHA", {
            "dim": 96, "window_size": 16, "heads": 4, "dim_head": 24, "causal": True}, X),
    ("local-attention", "LocalMHA, query and key normalised"): (
        "local_attention.transformer", "LocalMHA", {
            "dim": 96, "window_size": 16, "heads": 4, "dim_head": 24, "qk_rmsnorm": True}, X),
    ("reformer-pytorch", "LSHSelfAttention"): (
        "reformer_pytorch", "LSHSelfAttention", {
            "dim": 96, "heads": 4, "bucket_size": 8, "n_hashes": 2}, X),
    ("nystrom-attention", "NystromAttention"): (
        "nystrom_attention", "NystromAttention", {
            "dim": 96, "heads": 4, "dim_head": 24, "num_landmarks": 16}, X),
    ("linformer", "LinformerSelfAttention"): (
        "linformer", "LinformerSelfAttention", {
            "dim": 96, "seq_len": 64, "heads": 4, "k": 20}, X),
    ("conformer", "ConformerBlock"): (
        "conformer", "ConformerBlock", {"dim": 96, "heads": 4, "dim_head": 24}, X),
    ("sinkhorn-transformer", "SinkhornSelfAttention"): (
        "sinkhorn_transformer.sinkhorn_transformer", "SinkhornSelfAttention", {
            "dim": 96, "heads": 4, "bucket_size": 16, "max_seq_len": 64}, X),
    ("h-transformer-1d", "HAttention1D"): (
        "h_transformer_1d.h_transformer_1d", "HAttention1D", {
            "dim": 96, "heads": 4, "dim_head": 24, "block_size": 8}, X),
    ("colt5-attention", "routed attention"): (
        "colt5_attention", "ConditionalRoutedAttention", {
            "dim": 96, "light_dim_head": 24, "light_heads": 4, "light_window_size": 16,
            "heavy_dim_head": 24, "heavy_heads": 4, "num_heavy_tokens_q": 12,
            "num_heavy_tokens_kv": 12}, X),
    ("perceiver-pytorch", "Perceiver"): (
        "perceiver_pytorch", "Perceiver", {
            "input_channels": 3, "input_axis": 2, "num_freq_bands": 4, "depth": 2, "max_freq": 10.0,
            "num_latents": 16, "latent_dim": 64, "cross_heads": 1, "latent_heads": 4,
            "cross_dim_head": 24, "latent_dim_head": 24, "num_classes": 7}, (1, 12, 12, 3)),
    ("flamingo-pytorch", "PerceiverResampler"): (
        "flamingo_pytorch", "PerceiverResampler", {
            "dim": 96, "depth": 2, "dim_head": 24, "heads": 4, "num_latents": 16}, (1, 2, 20, 96)),
}  # fmt: skip

for (_package, _name), _of in _LAYERS.items():
    add(_package, _name, partial(_layer, *_of))

_LANGUAGES: dict[tuple[str, str], tuple[str, str, dict[str, Any], int]] = {
    ("reformer-pytorch", "ReformerLM"): (
        "reformer_pytorch", "ReformerLM", {
            "num_tokens": 200, "dim": 96, "depth": 1, "heads": 4, "max_seq_len": 64,
            "bucket_size": 8, "causal": True}, 64),
    ("local-attention", "LocalTransformer"): (
        "local_attention", "LocalTransformer", {
            "num_tokens": 200, "dim": 96, "depth": 2, "heads": 4, "dim_head": 24,
            "max_seq_len": 64, "local_attn_window_size": 16}, 64),
    ("block-recurrent-transformer-pytorch", "BlockRecurrentTransformer"): (
        "block_recurrent_transformer_pytorch", "BlockRecurrentTransformer", {
            "num_tokens": 200, "dim": 96, "depth": 2, "dim_head": 24, "heads": 4,
            "max_seq_len": 64, "block_width": 16, "num_state_vectors": 16,
            "recurrent_layers": (2,)}, 32),
}  # fmt: skip

for (_package, _name), _lm in _LANGUAGES.items():
    add(_package, _name, partial(_language, *_lm))


@case("coca-pytorch", "CoCa")
def _coca() -> Made:
    from coca_pytorch import CoCa
    from vit_pytorch import SimpleViT
    from vit_pytorch.extractor import Extractor

    vit = SimpleViT(image_size=64, patch_size=16, num_classes=7, dim=96, depth=1, heads=4,
                    mlp_dim=128)  # fmt: skip
    encoder = Extractor(vit, return_embeddings_only=True, detach=False)
    model = CoCa(dim=96, img_encoder=encoder, image_dim=96, num_tokens=200, unimodal_depth=1,
                 multimodal_depth=1, dim_head=24, heads=4)  # fmt: skip
    return Made(model.eval(), (torch.randint(1, 200, (1, 13)), torch.randn(1, 3, 64, 64)))


@case("torchscale", "encoder")
def _torchscale() -> Made:
    from torchscale.architecture.config import EncoderConfig
    from torchscale.architecture.encoder import Encoder

    config = EncoderConfig(
        encoder_embed_dim=96, encoder_attention_heads=4, encoder_ffn_embed_dim=128,
        encoder_layers=2, vocab_size=200, no_output_layer=True,
    )  # fmt: skip
    kwargs = {"token_embeddings": torch.randn(2, 21, 96)}
    return Made(Encoder(config).eval(), (torch.zeros(2, 21, dtype=torch.long),), kwargs)


@case("torchscale", "RetNet, parallel")
def _retention() -> Made:
    from torchscale.architecture.config import RetNetConfig
    from torchscale.architecture.retnet import RetNetDecoder

    config = RetNetConfig(
        decoder_embed_dim=96, decoder_value_embed_dim=96, decoder_retention_heads=4,
        decoder_ffn_embed_dim=128, decoder_layers=2, vocab_size=200,
    )  # fmt: skip
    kwargs = {"token_embeddings": torch.randn(2, 21, 96)}
    return Made(RetNetDecoder(config).eval(), (torch.zeros(2, 21, dtype=torch.long),), kwargs)
