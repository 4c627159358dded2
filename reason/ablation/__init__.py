"""An ablation: variants of a preset with several seeds each, checked, trained as a queue, compared."""
