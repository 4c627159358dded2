"""A recursive model as an ODE: other integrators, smaller steps, and the averaged equation of CMM (docs/math.md §2)."""
