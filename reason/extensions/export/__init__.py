"""A trained model to give away: weights and a card, ONNX graphs, the Hugging Face hub."""

from reason.plugins import COMMANDS, Command

PLACE = "reason.extensions.export.command"
COMMANDS["export"] = Command(f"{PLACE}:export", "export the model of a run, to share it: weights and card, or ONNX")
COMMANDS["push"] = Command(f"{PLACE}:push", "upload an exported model to the Hugging Face hub")
COMMANDS["pull"] = Command(f"{PLACE}:pull", "download an exported model from the Hugging Face hub")
