"""Torch code on the simulated NPU: its values, what it launches, and what stays on the host."""

from __future__ import annotations

import gc
import threading
import warnings
import weakref
from typing import Any

import pytest

from npuprof import simulator
from npuprof.errors import NpuprofWarning
from npuprof.simulator import Simulator, npu
from npuprof.simulator.clock import VirtualClock
from npuprof.simulator.device_view import CopyKind
from npuprof.simulator.torch_front.records import residence_of

pytestmark = pytest.mark.torch


@pytest.fixture
def copies(virtual: Simulator, monkeypatch: pytest.MonkeyPatch) -> list[tuple[CopyKind, int]]:
    """The copies between host and device, as they are made."""
    made: list[tuple[CopyKind, int]] = []
    device = virtual.device(0)
    copy = device.copy

    def watched(kind: CopyKind, size_bytes: int, *args: Any, **kwargs: Any) -> object:
        made.append((kind, size_bytes))
        return copy(kind, size_bytes, *args, **kwargs)

    monkeypatch.setattr(device, "copy", watched)
    return made


def network(torch: Any) -> Any:
    torch.manual_seed(0)
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * 9, 16),
        nn.LayerNorm(16),
        nn.GELU(),
        nn.Dropout(0.3),
        nn.Linear(16, 4),
    )


def train(torch: Any, steps: int = 2, **optimizer: Any) -> list[float]:
    model = network(torch)
    chosen = torch.optim.AdamW(model.parameters(), lr=1e-2, **optimizer)
    losses = []
    for _ in range(steps):
        loss = torch.nn.functional.cross_entropy(model(torch.randn(4, 3, 8, 8)), torch.randint(4, (4,)))
        chosen.zero_grad()
        loss.backward()
        chosen.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("optimizer", [{}, {"foreach": True}, {"fused": True}], ids=["plain", "foreach", "fused"])
def test_values_are_those_of_torch_alone(torch: Any, virtual: Simulator, optimizer: dict[str, bool]) -> None:
    expected = train(torch, **optimizer)
    with simulator.torch() as front:
        found = train(torch, **optimizer)
    assert found == expected
    assert expected[0] != expected[1]
    kinds = {"plain": "Addcdiv", "foreach": "ForeachAddcdivScalarList", "fused": "ApplyAdamWV2"}
    assert front.launched[kinds[next(iter(optimizer), "plain")]]
    assert not front.estimated


def test_a_training_step_runs_forward_backward_and_update(torch: Any, virtual: Simulator) -> None:
    with simulator.torch() as front:
        train(torch, steps=1)
    forward = {"Conv2D", "BNTrainingUpdate", "Relu", "MatMulV3", "LayerNormV4", "Gelu", "LogSoftmaxV2", "NLLLoss"}
    backward = {"Conv2DBackpropFilter", "BNTrainingUpdateGrad", "GeluGrad", "LayerNormGradV3", "LogSoftmaxGrad"}
    assert forward | backward | {"Addcdiv"} <= front.launched.keys()
    assert "Conv2DBackpropInput" not in front.launched  # the images need no gradient
    assert front.launched["MatMulV3"] == 2 + 2 * 2


def test_views_cost_nothing(torch: Any, virtual: Simulator, copies: list[object]) -> None:
    x = torch.ones(4, 6)
    with simulator.torch() as front:
        x.t()[1:].unsqueeze(0).expand(2, 5, 4)
        x.detach().view(24)[3:].split(7)
        torch.empty(100)
    assert not front.launched
    assert not copies


def test_host_arrays_are_copied_once(torch: Any, virtual: Simulator, copies: list[tuple[CopyKind, int]]) -> None:
    x = torch.ones(100)
    with simulator.torch():
        y = x + 1
        y = y * x
        y += x
    assert copies == [("host_to_device", 400)]


def test_a_look_at_a_value_copies_back_and_waits(
    torch: Any, virtual: Simulator, copies: list[tuple[CopyKind, int]]
) -> None:
    with simulator.torch():
        total = torch.ones(1000, 1000).sum()
        busy_until_ns = virtual.device(0).ns_at(virtual.device(0).default_stream.end_tick)
        assert virtual.clock.monotonic_raw_ns() < busy_until_ns
        assert total.item() == 1e6
    assert copies[-1] == ("device_to_host", 4)
    assert virtual.clock.monotonic_raw_ns() >= busy_until_ns


def test_scalars_of_the_host_stay_there(torch: Any, virtual: Simulator, copies: list[object]) -> None:
    with simulator.torch() as front:
        step = torch.tensor(0.0)
        step += 1
        assert step.item() == 1.0
        torch.zeros(10) + step
    assert set(front.launched) == {"ZerosLike", "Add"}
    assert not copies


def test_mask_waits_for_its_shape(torch: Any, virtual: Simulator, copies: list[tuple[CopyKind, int]]) -> None:
    x = torch.arange(8.0)
    with simulator.torch() as front:
        assert x[x > 3].tolist() == [4.0, 5.0, 6.0, 7.0]
    assert [front.launched[name] for name in ("Greater", "NonZero", "Index")] == [1, 1, 1]
    assert [kind for kind, _ in copies] == ["host_to_device", "device_to_host"]


def test_work_goes_to_the_stream_that_was_chosen(torch: Any, virtual: Simulator) -> None:
    device = virtual.device(0)
    side = npu.Stream()
    with simulator.torch():
        torch.ones(10) + 1
        before = device.default_stream.next_task_id
        with npu.stream(side):
            torch.ones(10) + 1
    assert device.default_stream.next_task_id == before
    assert device.streams[side.stream_id].next_task_id == 2


def test_attention_is_one_kernel_each_way(torch: Any, virtual: Simulator) -> None:
    query = torch.randn(2, 4, 16, 8, requires_grad=True)
    with simulator.torch() as front:
        torch.nn.functional.scaled_dot_product_attention(query, query, query, is_causal=True).sum().backward()
    assert front.launched["FlashAttentionScore"] == front.launched["FlashAttentionScoreGrad"] == 1


def test_inference_launches_what_the_forward_pass_does(torch: Any, virtual: Simulator) -> None:
    model, images = network(torch).eval()[:8], torch.randn(4, 3, 8, 8)
    counts = []
    for mode in (torch.no_grad, torch.inference_mode):
        with simulator.torch() as front, mode():
            model(images)
        counts.append(front.launched)
    assert counts[0] == counts[1]
    assert counts[0]["MatMulV3"] == counts[0]["BNInfer"] == 1


def layers_of(torch: Any) -> dict[str, tuple[Any, Any]]:
    """Layers that models commonly have, with what they are given."""
    nn = torch.nn
    image, series = torch.randn(2, 4, 8, 8), torch.randn(2, 4, 20)
    activations = (nn.SiLU(), nn.Mish(), nn.ELU(), nn.PReLU(), nn.Softplus(), nn.Hardswish(), nn.LeakyReLU(), nn.GLU(1))
    return {
        "images": (nn.Sequential(nn.Conv2d(4, 8, 3), nn.GroupNorm(2, 8), nn.AvgPool2d(2), nn.Upsample((6, 6))), image),
        "generator": (nn.Sequential(nn.ConvTranspose2d(4, 8, 2), nn.InstanceNorm2d(8), nn.Tanh()), image),
        "pooled": (nn.Sequential(nn.Conv2d(4, 4, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LogSoftmax(1)), image),
        "series": (nn.Sequential(nn.Conv1d(4, 8, 3), nn.BatchNorm1d(8), *activations, nn.MaxPool1d(2)), series),
        "volumes": (nn.Sequential(nn.Conv3d(2, 4, 2), nn.MaxPool3d(2)), torch.randn(1, 2, 6, 6, 6)),
        "lstm": (nn.LSTM(20, 8), series),
        "gru": (nn.GRU(20, 8, bidirectional=True), series),
        "transformer": (nn.TransformerEncoderLayer(20, 2, 16, batch_first=True), series),
        "tokens": (nn.Sequential(nn.Embedding(9, 8), nn.RMSNorm(8), nn.Linear(8, 9)), torch.randint(9, (2, 5))),
    }


OPTIMIZERS = ("Adam", "AdamW", "SGD", "RMSprop", "Adagrad", "Adamax", "NAdam", "RAdam", "Adadelta")


@pytest.mark.parametrize(
    "kind", ["images", "generator", "pooled", "series", "volumes", "lstm", "gru", "transformer", "tokens"]
)
def test_common_layers_and_optimizers_are_all_in_the_table(kind: str, torch: Any, virtual: Simulator) -> None:
    layer, x = layers_of(torch)[kind]
    with simulator.torch() as front:
        found = layer(x)
        (found[0] if isinstance(found, tuple) else found).sum().backward()
        torch.nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
        for name in OPTIMIZERS:
            getattr(torch.optim, name)(layer.parameters(), lr=1e-3).step()
    assert not front.estimated
    assert front.launched.total() > 50


def test_mixed_precision_casts(torch: Any, virtual: Simulator) -> None:
    layer, x = torch.nn.Linear(8, 8), torch.randn(4, 8)
    with simulator.torch() as front, torch.autocast("cpu", torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16
    assert front.launched["Cast"] == 3


def test_an_operator_without_a_model_is_estimated_and_named(torch: Any, virtual: Simulator) -> None:
    front = simulator.torch()

    def work() -> None:
        with front:
            torch.digamma(torch.digamma(torch.ones(10)) + 2)

    with pytest.warns(NpuprofWarning, match=r"no model of aten::digamma \(2\).*approximate"):
        work()
    assert front.estimated == {"aten::digamma": 2}
    assert front.launched["Digamma"] == 2
    with warnings.catch_warnings(), front:  # it was told
        warnings.simplefilter("error")
        torch.digamma(torch.ones(10))
    assert front.estimated == {"aten::digamma": 3}


def test_memory_follows_the_life_of_storages(torch: Any, virtual: Simulator) -> None:
    residence = residence_of(virtual.device(0))
    with simulator.torch():
        x = torch.zeros(1 << 20)
        y = x + 1
        view = y[10:]
        assert residence.allocated_bytes == 8 << 20
        del y
        x = x * 2  # the old one goes when the new one is there
        gc.collect()
        z = x + 1
        assert residence.allocated_bytes == 12 << 20
        del view, x, z
        torch.zeros(10)
    reserved = residence.reserved_bytes
    assert residence.allocated_bytes == 512
    assert reserved == virtual.device(0).memory.allocated_bytes
    with simulator.torch():
        torch.zeros(1 << 20)
    assert residence.reserved_bytes == reserved  # what is free is given out again


def test_a_machine_that_is_given_up_is_forgotten(torch: Any) -> None:
    machine = Simulator(clock=VirtualClock())
    device = weakref.ref(machine.device(0))
    with simulator.using(machine), simulator.torch():
        x = torch.ones(10) + 1
    del machine
    gc.collect()
    assert device() is None
    assert x.sum() == 20


def test_a_device_that_is_full_says_so(torch: Any, virtual: Simulator) -> None:
    memory = virtual.device(0).memory
    assert memory.allocate(memory.size_bytes - (1 << 20))
    with simulator.torch(), pytest.raises(MemoryError, match=r"simulated device 0 has no room for .* smaller"):
        torch.zeros(1 << 20)


def test_other_threads_and_later_code_are_untouched(torch: Any, virtual: Simulator) -> None:
    with simulator.torch() as front:
        thread = threading.Thread(target=lambda: torch.ones(10) + 1)
        thread.start()
        thread.join()
    torch.ones(10) + 1
    assert not front.launched


def test_an_exception_in_the_code_reaches_its_author(torch: Any, virtual: Simulator) -> None:
    with pytest.raises(RuntimeError, match="size"), simulator.torch() as front:
        torch.ones(3) @ torch.ones(4)
    with front:
        torch.ones(3) + 1
    assert front.launched["Add"] == 1


def test_there_must_be_such_a_device(torch: Any, virtual: Simulator) -> None:
    with pytest.raises(ValueError, match="no device 7"):
        simulator.torch(device=7)
