"""Networks, preprocessors, action distributions, exploration."""
