"""C++ kernels for CPUs: a supervision step of a mixer along the structure in one call."""
