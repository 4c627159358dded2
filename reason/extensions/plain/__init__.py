"""A torch.nn.Module of a user's file, which maps tokens to logits, as a model without recursion."""
