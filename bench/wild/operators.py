"""Two operators of torchvision that its import asks for, declared where none are loaded."""

from __future__ import annotations

import torch

__all__ = ["declare"]


def declare() -> None:
    """Let packages that only import torchvision be used without its compiled operators."""
    for name in ("nms", "qnms"):
        try:
            getattr(torch.ops.torchvision, name)
        except AttributeError:
            signature = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            torch.library.define(f"torchvision::{name}", signature)
