"""The acting side: observations in, actions out."""
