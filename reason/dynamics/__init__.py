"""What the map z ↦ F(z) does near a point: one home for losses and probes, so that both measure the same thing."""
