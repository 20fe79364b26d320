"""Environments: registry, vectorisation, checks."""
