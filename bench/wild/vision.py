"""Vision packages: timm, torchvision, vit-pytorch, open_clip, segment-anything, lightly."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from wild.case import Made, add, case

TIMM = (
    "vit_tiny_patch16_224", "deit_tiny_distilled_patch16_224", "cait_xxs24_224",
    "beit_base_patch16_224", "beitv2_base_patch16_224", "swin_tiny_patch4_window7_224",
    "swinv2_tiny_window8_256", "xcit_nano_12_p16_224", "pit_ti_224", "convit_tiny", "levit_128s",
    "coat_tiny", "crossvit_tiny_240", "twins_pcpvt_small", "tnt_s_patch16_224",
    "mobilevit_xxs", "mvitv2_tiny", "maxvit_tiny_tf_224", "eva02_tiny_patch14_224", "davit_tiny",
    "hiera_tiny_224", "volo_d1_224", "visformer_tiny", "nest_tiny", "poolformer_s12",
    "efficientformer_l1", "fastvit_t8", "vit_small_patch14_reg4_dinov2", "sequencer2d_s",
    "botnet26t_256", "halonet26t", "lambda_resnet26t", "naflexvit_base_patch16_gap",
)  # fmt: skip


def _timm(name: str) -> Made:
    import timm

    model = timm.create_model(name, pretrained=False).eval()
    size = (
        model.default_cfg.get("input_size", (3, 224, 224)) if model.default_cfg else (3, 224, 224)
    )
    return Made(model, (torch.randn(1, *size),))


for _name in TIMM:
    add("timm", _name, partial(_timm, _name))

VIT: dict[str, tuple[str, str, dict[str, Any]]] = {
    "ViT": ("vit", "ViT", {"mlp_dim": 128}),
    "SimpleViT": ("simple_vit", "SimpleViT", {"mlp_dim": 128}),
    "SimpleViT, query and key normalised": (
        "simple_vit_with_qk_norm", "SimpleViT", {"mlp_dim": 128}),
    "SimpleViT with registers": ("simple_vit_with_register_tokens", "SimpleViT", {"mlp_dim": 128}),
    "DeepViT": ("deepvit", "DeepViT", {"mlp_dim": 128}),
    "CaiT": ("cait", "CaiT", {"mlp_dim": 128, "cls_depth": 1}),
    "PiT": ("pit", "PiT", {"mlp_dim": 128, "depth": (1, 1)}),
    "ViT for small data": ("vit_for_small_dataset", "ViT", {"mlp_dim": 128}),
    "Parallel ViT": ("parallel_vit", "ViT", {"mlp_dim": 128}),
    "ViT with patch merger": ("vit_with_patch_merger", "ViT", {"mlp_dim": 128}),
    "ViT with patch dropout": ("vit_with_patch_dropout", "ViT", {"mlp_dim": 128}),
}  # fmt: skip


def _vit(module: str, kind: str, options: dict[str, Any]) -> Made:
    import importlib

    made = getattr(importlib.import_module(f"vit_pytorch.{module}"), kind)
    given = {"image_size": 64, "patch_size": 16, "num_classes": 7, "dim": 96, "depth": 2,
             "heads": 4} | options  # fmt: skip
    return Made(made(**given).eval(), (torch.randn(1, 3, 64, 64),))


for _name, _given in VIT.items():
    add("vit-pytorch", _name, partial(_vit, *_given))

HIERARCHICAL: dict[str, tuple[str, str, dict[str, Any], int]] = {
    "CvT": ("cvt", "CvT", {"num_classes": 7}, 224),
    "LeViT": ("levit", "LeViT", {
        "image_size": 224, "num_classes": 7, "stages": 3, "dim": (64, 96, 128), "depth": 1,
        "heads": (2, 3, 4), "mlp_mult": 2}, 224),
    "Twins-SVT": ("twins_svt", "TwinsSVT", {"num_classes": 7, "s1_depth": 1, "s2_depth": 1,
                                            "s3_depth": 1, "s4_depth": 1}, 224),
    "CrossFormer": ("crossformer", "CrossFormer", {
        "num_classes": 7, "dim": (32, 64, 128, 256), "depth": (1, 1, 1, 1)}, 224),
    "ScalableViT": ("scalable_vit", "ScalableViT", {
        "num_classes": 7, "dim": 32, "heads": (2, 4, 8, 16), "depth": (1, 1, 1, 1),
        "ssa_dim_key": (20, 20, 20, 20), "reduction_factor": (8, 4, 2, 1),
        "window_size": (64, 32, None, None)}, 256),
    "SepViT": ("sep_vit", "SepViT", {
        "num_classes": 7, "dim": 32, "dim_head": 32, "heads": (1, 2, 4, 8),
        "depth": (1, 1, 1, 1), "window_size": 7}, 224),
    "MaxViT": ("max_vit", "MaxViT", {
        "num_classes": 7, "dim": 32, "dim_head": 16, "depth": (1, 1), "window_size": 7,
        "dim_conv_stem": 32}, 224),
    "RegionViT": ("regionvit", "RegionViT", {
        "num_classes": 7, "dim": (32, 64, 128, 256), "depth": (1, 1, 1, 1)}, 224),
    "XCiT": ("xcit", "XCiT", {
        "image_size": 64, "patch_size": 16, "num_classes": 7, "dim": 96, "depth": 2, "cls_depth": 1,
        "heads": 4, "mlp_dim": 128}, 64),
    "NesT": ("nest", "NesT", {
        "image_size": 64, "patch_size": 4, "num_classes": 7, "dim": 48, "heads": 3,
        "num_hierarchies": 3, "block_repeats": (1, 1, 1)}, 64),
    "MobileViT": ("mobile_vit", "MobileViT", {
        "image_size": (64, 64), "dims": [96, 120, 144],
        "channels": [16, 32, 48, 48, 64, 64, 80, 80, 96, 96, 384], "num_classes": 7}, 64),
    "CrossViT": ("cross_vit", "CrossViT", {
        "image_size": 64, "num_classes": 7, "sm_dim": 48, "lg_dim": 96, "sm_patch_size": 8,
        "lg_patch_size": 16, "depth": 1, "sm_enc_heads": 4, "lg_enc_heads": 4}, 64),
    "T2T": ("t2t", "T2TViT", {
        "image_size": 64, "num_classes": 7, "dim": 96, "depth": 2, "heads": 4, "mlp_dim": 128},
        64),
}  # fmt: skip


def _hierarchical(module: str, kind: str, options: dict[str, Any], size: int) -> Made:
    import importlib

    made = getattr(importlib.import_module(f"vit_pytorch.{module}"), kind)
    return Made(made(**options).eval(), (torch.randn(1, 3, size, size),))


for _title, _parts in HIERARCHICAL.items():
    add("vit-pytorch", _title, partial(_hierarchical, *_parts))


def _torchvision(name: str, size: int) -> Made:
    from torchvision import models

    return Made(getattr(models, name)(weights=None).eval(), (torch.randn(1, 3, size, size),))


for _name, _size in {"vit_b_32": 224, "swin_t": 224, "swin_v2_t": 256, "maxvit_t": 224}.items():
    add("torchvision", _name, partial(_torchvision, _name, _size))


@case("open_clip", "CLIP, ViT-B-32")
def _clip() -> Made:
    import open_clip

    model = open_clip.create_model("ViT-B-32", pretrained=None).eval()
    return Made(model, (torch.randn(1, 3, 224, 224), torch.randint(0, 1000, (1, 77))))


@case("open_clip", "CoCa, ViT-B-32")
def _coca() -> Made:
    import open_clip

    model = open_clip.create_model("coca_ViT-B-32", pretrained=None).eval()
    return Made(model, (torch.randn(1, 3, 224, 224), torch.randint(0, 1000, (1, 77))))


@case("segment-anything", "image encoder")
def _sam() -> Made:
    from segment_anything.modeling import ImageEncoderViT

    model = ImageEncoderViT(
        img_size=128, embed_dim=96, depth=2, num_heads=4, out_chans=32, use_rel_pos=True,
        window_size=5, global_attn_indexes=(1,),
    )  # fmt: skip
    return Made(model.eval(), (torch.randn(1, 3, 128, 128),))


@case("segment-anything", "two-way transformer")
def _two_way() -> Made:
    from segment_anything.modeling import TwoWayTransformer

    model = TwoWayTransformer(depth=2, embedding_dim=64, num_heads=4, mlp_dim=96).eval()
    args = torch.randn(1, 64, 8, 8), torch.randn(1, 64, 8, 8), torch.randn(1, 5, 64)
    return Made(model, args)


@case("lightly", "masked autoencoder, decoder")
def _mae() -> Made:
    from lightly.models.modules import MAEDecoderTIMM

    model = MAEDecoderTIMM(
        num_patches=16, patch_size=8, embed_dim=64, decoder_embed_dim=96, decoder_depth=2,
        decoder_num_heads=4,
    )  # fmt: skip
    return Made(model.eval(), (torch.randn(1, 17, 64),))
