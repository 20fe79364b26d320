"""Where Dask workers come from, and the supervised actors on them."""
