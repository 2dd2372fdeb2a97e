"""The mechanism behind the PyTorch frontend; imported only when a module is given."""
