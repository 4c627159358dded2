"""A torch.nn.Module of a file of one's own, which maps tokens to logits, as a model without recursion."""
