"""A torch.nn.Module of a user's file as a model without recursion; it maps tokens to logits."""
