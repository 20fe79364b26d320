"""Configuration: trainer keys, experiment files, overrides, schema."""
