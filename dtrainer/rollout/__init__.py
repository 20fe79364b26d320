"""Stepping environments with policies: worker, sampler, filters, journal, worker set."""
