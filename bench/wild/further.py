"""Packages for graphs, time series, images and language, mostly whole models that are shrunken."""

from __future__ import annotations

from typing import Any

import torch

from wild.case import Made, case

X = (2, 64, 96)


def tokens(length: int = 21) -> torch.Tensor:
    return torch.randint(0, 200, (2, length))


# -- graphs ----------------------------------------------------------------------------------------


def edges(nodes: int, count: int) -> torch.Tensor:
    return torch.randint(0, nodes, (2, count))


@case("torch_geometric", "TransformerConv")
def _transformer_conv() -> Made:
    from torch_geometric.nn import TransformerConv

    model = TransformerConv(96, 24, heads=4).eval()
    return Made(model, (torch.randn(30, 96), edges(30, 120)))


@case("torch_geometric", "GATv2Conv")
def _gat() -> Made:
    from torch_geometric.nn import GATv2Conv

    return Made(GATv2Conv(96, 24, heads=4).eval(), (torch.randn(30, 96), edges(30, 120)))


@case("torch_geometric", "GPSConv")
def _gps() -> Made:
    from torch_geometric.nn import GINConv, GPSConv

    model = GPSConv(96, GINConv(torch.nn.Linear(96, 96)), heads=4).eval()
    batch = torch.tensor([0] * 14 + [1] * 16)
    return Made(model, (torch.randn(30, 96), edges(14, 60)), {"batch": batch})


@case("torch_geometric", "SetTransformerAggregation")
def _set() -> Made:
    from torch_geometric.nn.aggr import SetTransformerAggregation

    model = SetTransformerAggregation(96, num_seed_points=3, heads=4).eval()
    return Made(model, (torch.randn(30, 96), torch.tensor([0] * 14 + [1] * 16)))


@case("torch_geometric", "PerformerAttention")
def _performer() -> Made:
    from torch_geometric.nn.attention import PerformerAttention

    return Made(PerformerAttention(96, 4, head_channels=24).eval(), (torch.randn(2, 30, 96),))


@case("torch_geometric", "SGFormerAttention")
def _sgformer() -> Made:
    from torch_geometric.nn.attention import SGFormerAttention

    return Made(SGFormerAttention(96, 4, head_channels=24).eval(), (torch.randn(2, 30, 96),))


@case("torch_geometric", "PolynormerAttention")
def _polynormer() -> Made:
    from torch_geometric.nn.attention import PolynormerAttention

    return Made(PolynormerAttention(96, 4, head_channels=24).eval(), (torch.randn(2, 30, 96),))


@case("se3-transformer-pytorch", "SE3Transformer")
def _se3() -> Made:
    from se3_transformer_pytorch import SE3Transformer

    model = SE3Transformer(dim=24, heads=2, depth=1, dim_head=12, num_degrees=2, num_neighbors=5)
    return Made(model.eval(), (torch.randn(1, 16, 24), torch.randn(1, 16, 3)))


@case("egnn-pytorch", "EGNN with global attention")
def _egnn() -> Made:
    from egnn_pytorch import EGNN_Network

    model = EGNN_Network(
        num_tokens=21, dim=96, depth=1, global_linear_attn_every=1, global_linear_attn_heads=4,
        global_linear_attn_dim_head=24,
    ).eval()  # fmt: skip
    return Made(model, (torch.randint(0, 21, (1, 16)), torch.randn(1, 16, 3)))


@case("point-transformer-pytorch", "PointTransformerLayer")
def _point() -> Made:
    from point_transformer_pytorch import PointTransformerLayer

    model = PointTransformerLayer(dim=96, pos_mlp_hidden_dim=32, attn_mlp_hidden_mult=2)
    return Made(model.eval(), (torch.randn(1, 16, 96), torch.randn(1, 16, 3)))


# -- time series -----------------------------------------------------------------------------------


@case("chronos-forecasting", "Chronos-2")
def _chronos2() -> Made:
    from chronos.chronos2 import Chronos2CoreConfig, Chronos2Model

    forecasting = {
        "context_length": 64, "output_patch_size": 8, "input_patch_size": 8,
        "input_patch_stride": 8, "quantiles": [0.1, 0.5, 0.9], "use_reg_token": True,
    }  # fmt: skip
    config = Chronos2CoreConfig(
        d_model=96, d_kv=24, d_ff=128, num_layers=2, num_heads=4, vocab_size=2,
        chronos_config=forecasting,
    )  # fmt: skip
    return Made(Chronos2Model(config).eval(), (torch.randn(2, 64),))


@case("chronos-forecasting", "Chronos-Bolt")
def _bolt() -> Made:
    from chronos.chronos_bolt import ChronosBoltModelForForecasting
    from transformers import T5Config

    forecasting = {
        "context_length": 64, "prediction_length": 16, "input_patch_size": 8,
        "input_patch_stride": 8, "quantiles": [0.1, 0.5, 0.9], "use_reg_token": True,
    }  # fmt: skip
    config = T5Config(
        d_model=96, d_kv=24, d_ff=128, num_layers=2, num_heads=4, vocab_size=2,
        decoder_start_token_id=0, reg_token_id=1, pad_token_id=0,
    )  # fmt: skip
    config.chronos_config = forecasting
    return Made(ChronosBoltModelForForecasting(config).eval(), (torch.randn(2, 64),))


@case("pytorch-forecasting", "InterpretableMultiHeadAttention")
def _interpretable() -> Made:
    from pytorch_forecasting.models.temporal_fusion_transformer.sub_modules import (
        InterpretableMultiHeadAttention,
    )

    x = torch.randn(2, 21, 96)
    return Made(InterpretableMultiHeadAttention(4, 96).eval(), (x, x, x))


@case("gluonts", "PatchTST")
def _patchtst() -> Made:
    from gluonts.torch.model.patch_tst.module import PatchTSTModel

    model = PatchTSTModel(
        prediction_length=8, context_length=64, patch_len=8, stride=8, padding_patch="end",
        d_model=96, nhead=4, dim_feedforward=128, dropout=0.1, activation="relu",
        norm_first=False, num_encoder_layers=2, scaling="mean", num_feat_dynamic_real=0,
    ).eval()  # fmt: skip
    return Made(model, (torch.randn(2, 64).abs(), torch.ones(2, 64)))


@case("iTransformer", "iTransformer")
def _itransformer() -> Made:
    from iTransformer import iTransformer

    model = iTransformer(
        num_variates=13, lookback_len=32, dim=96, depth=2, heads=4, dim_head=24, pred_length=4
    ).eval()
    return Made(model, (torch.randn(2, 32, 13),))


# -- language --------------------------------------------------------------------------------------


@case("torchtune", "Llama 3")
def _tune_llama() -> Made:
    from torchtune.models.llama3 import llama3

    model = llama3(
        vocab_size=200, num_layers=2, num_heads=4, num_kv_heads=2, embed_dim=96, max_seq_len=64,
        intermediate_dim=128,
    ).eval()  # fmt: skip
    return Made(model, (tokens(),))


@case("torchtune", "Gemma 2")
def _tune_gemma2() -> Made:
    from torchtune.models.gemma2._component_builders import gemma2

    model = gemma2(
        vocab_size=200, num_layers=2, num_heads=4, num_kv_heads=2, head_dim=24, embed_dim=96,
        intermediate_dim=128, max_seq_len=64, sliding_window_size=8, query_pre_attn_scalar=48,
    ).eval()  # fmt: skip
    return Made(model, (tokens(),))


@case("torchtune", "CLIP vision encoder")
def _tune_clip() -> Made:
    from torchtune.models.clip._component_builders import clip_vision_encoder

    model = clip_vision_encoder(
        tile_size=32, patch_size=8, embed_dim=96, num_layers=2, num_heads=4
    ).eval()
    return Made(model, (torch.randn(1, 1, 1, 3, 32, 32),))


def _litgpt(**options: Any) -> Made:
    from litgpt import GPT, Config

    config = Config(
        block_size=64, vocab_size=200, padded_vocab_size=200, n_layer=2, n_head=4, n_embd=96,
        intermediate_size=128, **options,
    )  # fmt: skip
    return Made(GPT(config).eval(), (tokens(),))


@case("litgpt", "GPT")
def _lit() -> Made:
    return _litgpt()


@case("litgpt", "GPT, Gemma 2's options")
def _lit_gemma() -> Made:
    return _litgpt(
        attention_scores_scalar=48, attention_logit_softcapping=50.0, sliding_window_size=8,
        sliding_window_indices=[1, 0], rotary_percentage=1.0, n_query_groups=2,
    )  # fmt: skip


@case("litgpt", "GPT, query and key normalised")
def _lit_norm() -> Made:
    return _litgpt(norm_qk=True, norm_class_name="RMSNorm")


@case("mega-pytorch", "Mega")
def _mega() -> Made:
    from mega_pytorch import MegaLayer

    model = MegaLayer(
        dim=96, ema_heads=4, attn_dim_qk=24, attn_dim_value=96, laplacian_attn_fn=False
    )
    return Made(model.eval(), (torch.randn(2, 21, 96),))


@case("mega-pytorch", "Mega, Laplacian")
def _mega_laplacian() -> Made:
    from mega_pytorch import MegaLayer

    model = MegaLayer(
        dim=96, ema_heads=4, attn_dim_qk=24, attn_dim_value=96, laplacian_attn_fn=True
    )
    return Made(model.eval(), (torch.randn(2, 21, 96),))


@case("routing-transformer", "RoutingTransformer")
def _routing() -> Made:
    from routing_transformer import RoutingTransformer

    model = RoutingTransformer(
        dim=96,
        heads=4,
        depth=1,
        max_seq_len=64,
        window_size=16,
        n_local_attn_heads=2,
        local_attn_window_size=16,
    ).eval()
    return Made(model, (torch.randn(X),))


# -- memory-efficient ------------------------------------------------------------------------------


@case("memory-efficient-attention-pytorch", "Attention, in blocks")
def _efficient() -> Made:
    from memory_efficient_attention_pytorch import Attention

    model = Attention(
        dim=96, heads=4, dim_head=24, memory_efficient=True, q_bucket_size=16, k_bucket_size=16
    ).eval()
    return Made(model, (torch.randn(X),))


@case("memory-efficient-attention-pytorch", "Attention, whole")
def _whole() -> Made:
    from memory_efficient_attention_pytorch import Attention

    return Made(Attention(dim=96, heads=4, dim_head=24).eval(), (torch.randn(X),))


@case("memory-efficient-attention-pytorch", "FlashAttention")
def _flash() -> Made:
    from memory_efficient_attention_pytorch import FlashAttention

    model = FlashAttention(dim=96, heads=4, dim_head=24, q_bucket_size=16, k_bucket_size=16).eval()
    return Made(model, (torch.randn(X),))


@case("memory-efficient-attention-pytorch", "CosineSimAttention")
def _cosine() -> Made:
    from memory_efficient_attention_pytorch import CosineSimAttention

    return Made(
        CosineSimAttention(dim=96, seq_len=64, heads=4, dim_head=24).eval(), (torch.randn(X),)
    )


@case("ring-attention-pytorch", "RingAttention, one process")
def _ring() -> Made:
    from ring_attention_pytorch import RingAttention

    model = RingAttention(dim=96, heads=4, dim_head=24, causal=True, bucket_size=16)
    return Made(model.eval(), (torch.randn(X),))


# -- images and tables -----------------------------------------------------------------------------


@case("denoising-diffusion-pytorch", "Unet")
def _ddpm() -> Made:
    from denoising_diffusion_pytorch import Unet

    model = Unet(dim=32, dim_mults=(1, 2), attn_dim_head=16, attn_heads=4).eval()
    return Made(model, (torch.randn(1, 3, 16, 16), torch.tensor([3])))


@case("axial-attention", "AxialAttention")
def _axial() -> Made:
    from axial_attention import AxialAttention

    model = AxialAttention(dim=96, dim_index=1, heads=4, num_dimensions=2).eval()
    return Made(model, (torch.randn(1, 96, 8, 9),))


@case("tab-transformer-pytorch", "FTTransformer")
def _tab() -> Made:
    from tab_transformer_pytorch import FTTransformer

    model = FTTransformer(
        categories=(5, 6, 7), num_continuous=4, dim=96, dim_out=1, depth=2, heads=4, dim_head=24
    ).eval()
    return Made(model, (torch.randint(0, 5, (2, 3)), torch.randn(2, 4)))


@case("neuraloperator", "attention kernel integral")
def _kernel() -> Made:
    from neuralop.layers.attention_kernel_integral import AttentionKernelIntegral

    model = AttentionKernelIntegral(96, 96, n_heads=4, head_n_channels=24).eval()
    return Made(model, (torch.randn(2, 21, 96), torch.rand(2, 21, 2)))
