"""C++ kernels for CPUs: a supervision step of a mixer along the structure, or a gated layer, in one call."""
