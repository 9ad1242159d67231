"""The pseudo-GPU itself: what it refuses, counts and measures, as CUDA would."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.pseudo_gpu import DEVICE, PseudoGpu, PseudoTensor, environment

CUDA = "cuda"


def numbers(*shape: int) -> Tensor:
    """Numbers from 0 on, on the device."""
    return torch.arange(float(np.prod(shape)), device=CUDA).view(shape)


class TestRefusals:
    """What fails on a GPU fails here."""

    @pytest.mark.parametrize(
        "wrong",
        [
            lambda: numbers(3) + torch.ones(3),
            lambda: torch.ones(3).add_(numbers(3)),
            lambda: torch.ones(()).add_(numbers(3).sum()),
            lambda: numbers(3).where(torch.tensor([True, False, True]), 0.0),
            lambda: torch.cat([numbers(3), torch.ones(2)]),
            lambda: numbers(3).gather(0, torch.tensor([0])),
            lambda: numbers(3).index_select(0, torch.tensor([0])),
            lambda: numbers(3).index_put_((torch.tensor([0, 1]),), torch.ones(2)),
            lambda: numbers(3).masked_fill(torch.tensor([True, False, True]), 0.0),
            lambda: nn.Linear(3, 3)(numbers(3)),
            lambda: nn.functional.embedding(torch.tensor([1]), numbers(3, 2)),
        ],
        ids=lambda wrong: "",
    )
    def test_tensors_of_both_devices(
        self, pseudo_gpu: PseudoGpu, wrong: Callable[[], Tensor]
    ) -> None:
        """A tensor left on the CPU meets none of the device's."""
        for mode in (torch.inference_mode, torch.no_grad, torch.enable_grad):
            with mode(), pytest.raises(RuntimeError, match="on the same device"):
                wrong()

    def test_an_index_of_the_device_into_a_cpu_tensor(self, pseudo_gpu: PseudoGpu) -> None:
        """The CPU's tensors aren't indexed, nor written, by the device's."""
        index = torch.tensor([1], device=CUDA)
        with pytest.raises(RuntimeError, match="indices should be either on cpu"):
            torch.ones(3)[index]
        with pytest.raises(RuntimeError, match="indices should be either on cpu"):
            torch.ones(3)[index] = 2.0

    def test_numpy(self, pseudo_gpu: PseudoGpu) -> None:
        """NumPy gets no tensor of the device, directly or through np.asarray."""
        with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
            numbers(3).numpy()
        with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
            np.asarray(numbers(3))
        assert numbers(3).cpu().numpy().tolist() == [0, 1, 2]

    def test_beyond_the_capacity(self, pseudo_gpu: PseudoGpu) -> None:
        """A tensor that doesn't fit raises CUDA's error; freed memory can be used again."""
        pseudo_gpu.capacity = pseudo_gpu.allocated + 4000
        kept = torch.empty(600, device=CUDA)
        with pytest.raises(torch.OutOfMemoryError, match="CUDA out of memory"):
            torch.empty(600, device=CUDA)
        del kept
        assert torch.empty(600, device=CUDA).is_cuda


class TestWhatPasses:
    """What works on a GPU works here, with the CPU's results."""

    def test_numbers_and_names(self, pseudo_gpu: PseudoGpu) -> None:
        """A tensor's device, its parts and results are the device's; numbers are the CPU's."""
        tensor = torch.tensor([[1.0, 2.0], [3.0, 4.0]], device=CUDA)
        assert isinstance(tensor, PseudoTensor)
        assert (tensor.device, tensor.is_cuda, tensor.is_cpu) == (DEVICE, True, False)
        assert (tensor @ tensor).tolist() == [[7, 10], [15, 22]]
        assert (tensor[0] * 2).device == torch.zeros_like(tensor).device == DEVICE
        assert tensor.to("cuda") is tensor
        assert not tensor.cpu().is_cuda

    def test_writing_through_a_view(self, pseudo_gpu: PseudoGpu) -> None:
        """A view shares its base's numbers."""
        base = torch.zeros(2, 3, device=CUDA)
        base[1].add_(1)
        base.T[0] = torch.tensor(5.0)
        assert base.tolist() == [[5, 0, 0], [5, 1, 1]]

    def test_scalars_of_the_cpu(self, pseudo_gpu: PseudoGpu) -> None:
        """Tensors without dimensions may be the CPU's, as CUDA allows."""
        assert (numbers(2) + torch.tensor(1.0)).tolist() == [1, 2]

    def test_training(self, pseudo_gpu: PseudoGpu) -> None:
        """A module moves with tied parameters still tied, and learns what it learns on the CPU."""
        trained = []
        for device in ("cpu", CUDA):
            torch.manual_seed(0)
            module = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
            module[2].weight = module[0].weight
            module = module.to(device)
            assert module[2].weight is module[0].weight
            optimizer = torch.optim.AdamW(module.parameters(), lr=0.1, foreach=False)
            for _ in range(3):
                optimizer.zero_grad()
                module(torch.ones(2, 4, device=device)).pow(2).sum().backward()
                optimizer.step()
            trained.append(module[0].weight.detach().cpu())
        assert torch.equal(*trained)

    def test_memory(self, pseudo_gpu: PseudoGpu) -> None:
        """torch.cuda tells the bytes of tensors alive, views not counted twice, and their peak."""
        before = torch.cuda.memory_allocated()
        tensor = torch.zeros(10, 10, device=CUDA)
        view = tensor[2:]
        assert torch.cuda.memory_allocated() - before == 400
        del tensor
        assert torch.cuda.memory_allocated() - before == 400
        del view
        assert torch.cuda.memory_allocated() == before
        assert torch.cuda.max_memory_allocated() == before + 400
        torch.cuda.reset_peak_memory_stats()
        assert torch.cuda.max_memory_allocated() == before

    def test_ends_with_its_test(self) -> None:
        """Without the fixture torch is as it was."""
        assert torch.cuda.is_available() is (torch.cuda.device_count() > 0)
        assert "Pseudo" not in torch.Generator.__qualname__


def waits(operation: Callable[[], object], pseudo_gpu: PseudoGpu) -> int:
    """The waits of an operation, the same with and without inference mode."""
    counted = set()
    for mode in (torch.inference_mode, torch.no_grad):
        with mode(), pseudo_gpu.counting() as counts:
            operation()
        counted.add(counts.waits())
    assert len(counted) == 1
    return counted.pop()


class TestCounts:
    """Waits are those of CUDA."""

    @pytest.mark.parametrize(
        ("expected", "name"),
        [
            (1, "item"),
            (1, "truth"),
            (1, "tolist"),
            (1, "cpu"),
            (1, "nonzero"),
            (1, "where alone"),
            (1, "mask read"),
            (1, "mask written"),
            (1, "list index"),
            (1, "tensor from a list"),
            (1, "copy to the device"),
            (1, "unpinned copy"),
            (1, "index of the CPU"),
            (0, "pinned copy"),
            (0, "mask filled"),
            (0, "masked_fill"),
            (0, "masked_scatter"),
            (0, "nonzero_static"),
            (0, "stable argsort"),
            (0, "index"),
            (0, "arithmetic"),
            (0, "made there"),
            (0, "few in isin"),
        ],
    )
    def test_waits(self, pseudo_gpu: PseudoGpu, expected: int, name: str) -> None:
        """Each operation makes the host wait as often as on CUDA."""
        tensor = numbers(4)
        mask = tensor > 1
        index = torch.tensor([0, 1], device=CUDA)
        two = numbers(2)
        some = torch.tensor([1])

        def write(value: object) -> None:
            tensor[mask] = value  # type: ignore[assignment, index]

        operations: dict[str, Callable[[], object]] = {
            "item": lambda: int(tensor[0]),
            "truth": lambda: bool(mask.any()),
            "tolist": tensor.tolist,
            "cpu": tensor.cpu,
            "nonzero": mask.nonzero,
            "where alone": lambda: torch.where(mask),
            "mask read": lambda: tensor[mask],
            "mask written": lambda: write(two),
            "list index": lambda: tensor[[0, 1]],
            "tensor from a list": lambda: torch.tensor([1, 2], device=CUDA),
            "copy to the device": lambda: some.to(CUDA),
            "unpinned copy": lambda: some.to(CUDA, non_blocking=True),
            "index of the CPU": lambda: tensor[some],
            "pinned copy": lambda: some.pin_memory().to(CUDA, non_blocking=True),
            "mask filled": lambda: write(7),
            "masked_fill": lambda: tensor.masked_fill(mask, 1.0),
            "masked_scatter": lambda: tensor.masked_scatter(mask, two),
            "nonzero_static": lambda: torch.nonzero_static(mask, size=2),
            "stable argsort": lambda: tensor.argsort(stable=True),
            "index": lambda: tensor[index],
            "arithmetic": lambda: (tensor + 1).cumsum(0).amax(),
            "made there": lambda: torch.full((3,), 2.0, device=CUDA),
            "few in isin": lambda: torch.isin(tensor, two),
        }
        assert waits(operations[name], pseudo_gpu) == expected

    def test_lines_and_the_network(self, pseudo_gpu: PseudoGpu) -> None:
        """A wait is known by pbcore's line, and by whether it is inside of a module's forward."""
        from pbcore.decoding.prediction import scattered
        from pbcore.models import load_model
        from pbcore.models.network import Columns

        model = load_model("tiny", device=CUDA, dtype="float32")
        mask = torch.tensor([[True, False]], device=CUDA)
        values = torch.ones(1, device=CUDA)
        with torch.inference_mode(), pseudo_gpu.counting() as counts:
            scattered(mask, values)
        assert {line.file for _, line in counts.kernel} == {"decoding/prediction.py"}
        assert counts.kernels(network=True) == 0
        ids = torch.zeros(1, 3, dtype=torch.long, device=CUDA)
        with torch.inference_mode(), pseudo_gpu.counting() as counts:
            model.network.hidden(Columns(ids, ids))  # type: ignore[union-attr]
        assert counts.kernels(network=True) > 50
        assert {line.file for _, line in counts.kernel} == {"models/network.py"}


def test_a_process_of_its_own(tmp_path: Path) -> None:
    """Under `environment` a command finds the device, with the memory that was asked for."""
    done = subprocess.run(
        [sys.executable, "-m", "pbcore", "check", "machine"],
        env=environment(tmp_path, capacity=3 << 30),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Pseudo GPU" in done.stdout, done.stderr
    assert "3" in done.stdout
