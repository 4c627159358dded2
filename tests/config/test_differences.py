"""Which settings set configs apart."""

from reason.config.differences import differing


def test_differences_of_several_configs() -> None:
    first = {"seed": 0, "model": {"kind": "a", "width": 1}, "loss": {"weights": {"lm": 1.0}}}
    second = {"seed": 0, "model": {"kind": "b", "height": 2}, "loss": {"weights": {"lm": 1.0, "q": None}}}
    assert differing([first, second, first]) == {
        "model.kind": ["a", "b", "a"],
        "model.width": [1, ..., 1],
        "loss.weights.q": [..., None, ...],
        "model.height": [..., 2, ...],
    }
    assert differing([first, first]) == differing([second]) == {}
