"""Capture and replay of the steps of trainings and evaluations.

A step of a small network is some thousand kernels of a few microseconds, and the host needs longer to queue them than
the GPU to run them. A CUDA graph queues them all by one call. It reads and writes the memory that it was captured
with. So everything that a step replaces (carries, meters) is copied to the memory of the next replay, and the scalars
of a step (`Trainer.scalars`) are entries of one tensor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

from reason.errors import ConfigError
from reason.models.base import Context, Reasoner, State
from reason.models.states import mapped
from reason.rollout import Carry
from reason.training.optim import AdamAtan2

if TYPE_CHECKING:
    from reason.training.loop import StepPlan, StepScalars, Trainer

Replay = Callable[[], Any]
DEVICES = {"cuda"}  # whose steps can be captured
EAGER = 3  # steps of a form before it is captured: the optimizer makes its state, inductor compiles, cuBLAS begins


class Form(NamedTuple):
    """The decisions of the host before an optimizer step. Two steps of one form queue the same kernels."""

    frozen: bool  # is x̂ frozen?
    terms: tuple[str, ...]  # the loss terms that are evaluated
    plans: tuple[StepPlan, ...]  # of the N_grad supervision steps


def form_of(trainer: Trainer) -> Form:
    """Return the form of a trainer's next optimizer step."""
    config = trainer.config
    at = (trainer.step, trainer.config.training.steps)
    return Form(config.optimizer.freezes(*at), tuple(config.loss.weights_at(*at)), tuple(trainer.step_plans()))


class CudaGraphs:
    """Kernels that a function queues, captured to be queued again by one call. All graphs share their memory."""

    def __init__(self, device: torch.device, generators: list[torch.Generator]):
        """Share memory between the graphs. The function draws from `generators` and from the default one."""
        if device.index is not None:
            torch.cuda.set_device(device)  # the stream that is captured is of the current one
        self.generators = generators
        self.pool = torch.cuda.graph_pool_handle()

    def __call__(self, step: Replay) -> Replay:
        """Capture `step`, without running it."""
        graph = torch.cuda.CUDAGraph()
        for generator in self.generators:
            graph.register_generator_state(generator)
        with torch.cuda.graph(graph, pool=self.pool):
            result = step()

        def replay() -> Tensor:
            graph.replay()
            return result

        return replay


class Captured:
    """`Trainer.optimizer_step` by graphs: one for each form. Steps at which the balancer measures stay eager."""

    def __init__(self, trainer: Trainer, capture: Callable[[Replay], Replay] | None = None):
        """Prepare the trainer. Raises ConfigError if a step of this trainer needs the host."""
        if lack := lacking(trainer):
            raise refusal(lack)
        self.trainer = trainer
        self.capture = capture or CudaGraphs(trainer.device, [each.generator for each in trainer.samplers])
        self.seen: Counter[Form] = Counter()
        self.replays: dict[Form, tuple[Replay, list[Tensor]]] = {}
        # Values that a step replaces (carries, meters), in memory shared by all graphs. All else is written in place.
        self.carries: list[dict[str, Any]] = []
        self.sums: dict[str, Tensor] = {}
        # The inputs of a step from the host: its scalars, and the groups of the puzzles that it draws.
        self.terms = trainer.config.loss.present
        self.entries = torch.empty(2 + len(self.terms), device=trainer.device)  # float32: the scalars
        self.host_groups = [sampler.groups for sampler in trainer.samplers]
        self.groups: Iterator[Tensor] = iter(())
        for sampler in trainer.samplers:
            sampler.groups = lambda: next(self.groups)  # type: ignore[method-assign]
        optimizers = trainer.optimizers
        moments = trainer.optimizers.state_dict()
        if not isinstance(optimizers.main, torch.optim.AdamW):
            optimizers.use(AdamAtan2(optimizers.weights, optimizers.config))  # the package counts steps on the host
        for group in optimizers.main.param_groups:
            group["capturable"] = True  # step counts are tensors of the device
        optimizers.load_state_dict(moments)

    def __call__(self) -> Tensor:
        """Run an optimizer step."""
        trainer = self.trainer
        form = form_of(trainer)
        scalars, groups = self.prepare(form)
        self.seen[form] += 1
        if self.seen[form] <= EAGER or any(plan.measure_gradients for plan in form.plans):
            return trainer.optimizer_step(scalars)
        self._settle()
        at = trainer.step, trainer.index
        if form not in self.replays:
            places = [each.clone() for each in groups]
            try:
                self.replays[form] = self.capture(partial(self._step, scalars, places)), places
            except torch.OutOfMemoryError:
                raise
            except RuntimeError as error:  # such as a sum of sparse gradients, or a random state that is read
                raise refusal(f"a step of this model asks the device ({str(error).splitlines()[0]})") from error
            trainer.step, trainer.index = at
        replay, places = self.replays[form]
        for place, drawn in zip(places, groups, strict=True):
            place.copy_(drawn)
        norm = replay()
        trainer.step = at[0] + 1
        trainer.index = at[1] + len(form.plans)
        return norm

    def prepare(self, form: Form) -> tuple[StepScalars, list[Tensor]]:
        """Return the scalars of the next step, on the device, and the groups (B,) of each batch that it draws."""
        trainer = self.trainer
        now = trainer.scalars()
        values = [now.lr_factor, now.ema_rate, *(now.loss_weights.get(name, 0.0) for name in self.terms)]
        on_gpu = trainer.device.type == "cuda"  # without pinned memory its copy would wait
        self.entries.copy_(torch.tensor(values, pin_memory=on_gpu), non_blocking=True)
        lr_factor, ema_rate, *weights = self.entries.unbind()
        of_terms = dict(zip(self.terms, weights, strict=True))
        scalars = now._replace(
            lr_factor=lr_factor, ema_rate=ema_rate, loss_weights={name: of_terms[name] for name in form.terms}
        )
        every = trainer.config.rollout.carry == "persistent"  # else at the first step of a loader batch
        groups = [self.host_groups[plan.set_index]() for plan in form.plans if every or plan.new_loader_batch]
        self.groups = iter(groups)
        return scalars, groups

    def _step(self, scalars: StepScalars, places: list[Tensor]) -> Tensor:
        """Take a step that draws its puzzles from the groups in `places`: the captured function."""
        self.groups = iter(places)
        norm = self.trainer.optimizer_step(scalars)
        self._settle()
        return norm

    def _settle(self) -> None:
        """Copy the values that a step replaced to the memory of the graphs."""
        trainer = self.trainer
        if not self.carries:
            self.carries = [tree_map_only(Tensor, torch.clone, vars(carry)) for carry in trainer.carries]
        for place, now in zip(tree_leaves(self.carries), tree_leaves(list(map(vars, trainer.carries))), strict=True):
            if isinstance(place, Tensor):  # not the shape of a batch
                place.copy_(now)
        for name, now in trainer.meters.sums.items():
            if name not in self.sums:
                self.sums[name] = now.clone()
            self.sums[name].copy_(now)
        trainer.carries = [Carry(**fields) for fields in self.carries]
        trainer.meters.sums = dict(self.sums)


class CapturedStep:
    """`Reasoner.step` of an evaluation by one graph, for batches of one size."""

    def __init__(self, model: Reasoner, capture: Callable[[Replay], Replay] | None = None):
        """Take the model's step. Raises ConfigError if the device has no graphs."""
        device = next(model.parameters()).device
        if capture is None and device.type not in DEVICES:
            raise ConfigError(
                f"evaluation.compile=graph: {device} has no CUDA graphs; type evaluation.compile=inductor"
            )
        self.step = model.step
        self.capture = capture or CudaGraphs(device, [])
        self.seen = 0
        self.replay: Replay | None = None

    def __call__(self, state: State, context: Context) -> State:
        """Return the state one step further."""
        self.seen += 1
        if self.seen <= EAGER:
            return self.step(state, context)
        given = (state, context.x, context.mask, context.relations)
        if self.replay is None:  # the inputs of the graph
            self.held = tree_map_only(Tensor, torch.clone, given)
            z, x, mask, relations = self.held
            read = replace(context, x=x, mask=mask, relations=relations)
            self.replay = self.capture(lambda: self.step(z, read))
        for place, now in zip(tree_leaves(self.held), tree_leaves(given), strict=True):
            if now is not None:
                place.copy_(now)
        return mapped(self.replay(), torch.clone)


def refusal(lack: str) -> ConfigError:
    """Return the error of a training whose steps cannot be captured."""
    return ConfigError(f"training.compile=graph: {lack}; type training.compile=inductor")


def lacking(trainer: Trainer) -> str | None:
    """Return why a trainer's steps cannot be captured, or None if they can."""
    if type(trainer.optimizers.main).__module__.startswith("adam_atan2."):
        return "the package adam-atan2 takes its learning rate from the host"
    if trainer.device.type not in DEVICES:
        return f"{trainer.device} has no CUDA graphs"
    if trainer.scaling.enabled:
        return "in fp16 every step asks the device whether it overflowed"
    if trainer.balancer is not None and trainer.config.balance.every == 1:
        return "balance.every=1 measures in every step, and these stay eager"
    if any(part.inputs.device.type != trainer.device.type for part in trainer.data.parts):
        return "the set stays on disk, and every step reads its rows"
    return "several processes train" if trainer.world.size > 1 else None
