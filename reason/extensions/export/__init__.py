"""A trained model to give away: weights and a card, ONNX graphs, the Hugging Face hub."""

from reason.plugins import COMMANDS, Command

COMMANDS["export"] = Command(
    "reason.extensions.export.command:export", "export the model of a run, to share it: weights and card, or ONNX"
)
COMMANDS["push"] = Command("reason.extensions.export.hub:push", "upload an exported model to the Hugging Face hub")
COMMANDS["pull"] = Command("reason.extensions.export.hub:pull", "download an exported model from the Hugging Face hub")
