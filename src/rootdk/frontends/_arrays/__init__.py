"""Saved tensors: files of arrays from anywhere, read as data and measured."""
