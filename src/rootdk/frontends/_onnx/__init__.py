"""ONNX: a graph run node by node by onnxruntime, each tensor recorded where it is made."""
