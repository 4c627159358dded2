"""Export of a trained model: weights and a card, or ONNX graphs."""

from reason.plugins import COMMANDS, Command

COMMANDS["export"] = Command(
    "reason.extensions.export.command:export", "export the model of a run, to share it: weights and card, or ONNX"
)
COMMANDS["models"] = Command(
    "reason.extensions.export.models:main", "list the trained models that come with the package"
)
