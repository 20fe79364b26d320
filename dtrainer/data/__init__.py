"""Sample batches, advantages, replay."""
