"""A pseudo-GPU: a CUDA device that isn't there, so that the path of `--gpu` is tested without one.

What it can't show: that CUDA has a kernel for an operation and a dtype, device-side asserts (an
index out of range raises at once here, and kills a process there), speed, how a kernel rounds, and
the memory that kernels use inside. Those need a GPU.

What it does: tensors say `cuda:0` and keep their numbers on the CPU. PyTorch hands every operation
to `PseudoGpu.__torch_dispatch__`, as it would hand it to CUDA's kernels. That
- refuses operations between this device's tensors and the CPU's, with CUDA's words, and lets pass
  what CUDA lets pass: scalars, CPU indices, copies;
- counts, while `counting()`, what makes the host wait for the device, and kernels, by the line of
  pbcore that asked: what `torch.cuda.set_sync_debug_mode` would report, blocking copies to the
  device included;
- knows the bytes of all tensors alive, and raises `torch.OutOfMemoryError` beyond `capacity`.

In a test, take the fixture `pseudo_gpu` (tests/conftest.py):

    def test_something(pseudo_gpu):
        model = load_model("tiny", device="cuda", dtype="float32")
        with pseudo_gpu.counting() as counts:
            ...
        assert counts.waits(network=True) == 0, counts  # its text lists the lines that wait
        pseudo_gpu.capacity = 64 << 20  # bytes

For commands, pytest's workers and other processes, `environment(folder)` gives variables under
which every Python process has the device from its start; PSEUDO_GPU_CAPACITY is its bytes.
"""

import atexit
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from tests.environment import own_environment

DEVICE = torch.device("cuda", 0)
CPU = torch.device("cpu")
NAME = "Pseudo GPU"
CAPACITY = 80 << 30
ROOT = Path(__file__).parent.parent
# The package's folder, found without importing it: tests that time two revisions import others.
PACKAGE = os.path.dirname(str(find_spec("pbcore").origin)) + os.sep

aten = torch.ops.aten

# Operations whose result has a size, or a number, that the host must wait for.
WAITING = {
    "aten::_local_scalar_dense",
    "aten::nonzero",
    "aten::masked_select",
    "aten::equal",
    "aten::_unique",
    "aten::_unique2",
    "aten::unique_dim",
    "aten::unique_consecutive",
    "aten::repeat_interleave.Tensor",
    "aten::bincount",
}
# Operations that CUDA runs with tensors of the CPU, too: copies, and indices.
COPYING = {"aten::copy_", "aten::_to_copy"}
INDEXING = {
    "aten::index.Tensor",
    "aten::index_put_",
    "aten::index_put",
    "aten::_index_put_impl_",
    "aten::_unsafe_index.Tensor",
    "aten::_unsafe_index_put",
}
# Composite operations that stay whole, for the CPU's own rounding. The others come in their parts.
WHOLE = {
    "aten::layer_norm",
    "aten::linear",
    "aten::matmul",
    "aten::rms_norm",
    "aten::scaled_dot_product_attention",
}
# What changes no number runs no kernel.
VIEWS = {
    "alias",
    "as_strided",
    "detach",
    "detach_",
    "diagonal",
    "empty",
    "empty_like",
    "empty_strided",
    "expand",
    "lift",
    "lift_fresh",
    "new_empty",
    "new_empty_strided",
    "permute",
    "select",
    "slice",
    "split",
    "split_with_sizes",
    "squeeze",
    "t",
    "transpose",
    "unbind",
    "unfold",
    "unsqueeze",
    "view",
    "_reshape_alias",
    "_unsafe_view",
}


class Line(NamedTuple):
    """The line of pbcore that asked for an operation; `network` inside a module's forward."""

    file: str
    number: int
    function: str
    network: bool

    def __str__(self) -> str:
        inside = " (in the network)" if self.network else ""
        return f"{self.file}:{self.number} {self.function}{inside}"


@dataclass
class Counts:
    """Waits and kernels by what they were and where: (operation, line) → times."""

    waiting: Counter[tuple[str, Line]] = field(default_factory=Counter)
    kernel: Counter[tuple[str, Line]] = field(default_factory=Counter)

    def waits(self, network: bool | None = None) -> int:
        """All waits, or only those inside (True) or outside (False) of a network's forward."""
        return _total(self.waiting, network)

    def kernels(self, network: bool | None = None) -> int:
        """All kernels, or only those inside (True) or outside (False) of a network's forward."""
        return _total(self.kernel, network)

    def __str__(self) -> str:
        lines = [
            f"{times:6d}  {what:28s} {line}" for (what, line), times in self.waiting.most_common()
        ]
        return "\n".join([f"{self.waits()} waits, {self.kernels()} kernels", *lines])


def _total(counter: Counter[tuple[str, Line]], network: bool | None) -> int:
    chosen = (times for (_, line), times in counter.items() if network in (None, line.network))
    return sum(chosen)


class Allocation:
    """The memory of tensors that share it; gone with the last of them."""

    __slots__ = ("__weakref__", "gpu", "size")

    def __init__(self, gpu: "PseudoGpu", size: int) -> None:
        self.gpu = gpu
        self.size = size
        gpu.allocate(size)

    def __del__(self) -> None:
        self.gpu.allocated -= self.size


class PseudoTensor(torch.Tensor):
    """A tensor that says `cuda:0`; `inner` holds its numbers on the CPU."""

    inner: torch.Tensor
    allocation: Allocation
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(
        cls: type["PseudoTensor"], inner: torch.Tensor, allocation: Allocation
    ) -> "PseudoTensor":
        with torch.inference_mode(False):  # else it can't be a view of one made outside
            outer: PseudoTensor = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
                cls,
                inner.size(),
                strides=inner.stride(),
                storage_offset=inner.storage_offset(),
                dtype=inner.dtype,
                layout=inner.layout,
                device=DEVICE,
                requires_grad=False,
            )
        outer.inner = inner
        outer.allocation = allocation
        return outer

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"{self.inner!r} on {DEVICE}"

    @property
    def data(self) -> torch.Tensor:
        found: torch.Tensor = torch.Tensor.data.__get__(self)  # type: ignore[attr-defined]
        return found

    @data.setter
    def data(self, value: torch.Tensor) -> None:
        """Takes the numbers of another of this device's tensors; PyTorch's own leaves `inner`."""
        assert isinstance(value, PseudoTensor), "a tensor doesn't leave its device by `data`"
        torch.Tensor.data.__set__(self, value)  # type: ignore[attr-defined]
        self.inner = value.inner
        self.allocation = value.allocation

    def untyped_storage(self) -> torch.UntypedStorage:
        return self.inner.untyped_storage()  # whose address tells tensors that share memory

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def numpy(self, *, force: bool = False) -> Any:
        if force:
            return self.detach().cpu().numpy()
        raise TypeError(
            "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor"
            " to host memory first."
        )

    def __array__(self, dtype: Any = None) -> Any:
        return self.numpy()

    def backward(self, gradient: torch.Tensor | None = None, **_: Any) -> None:  # type: ignore[override]
        """Adds the gradients of a number to its leaves. PyTorch's own engine asks the driver for
        streams.
        """
        assert self.grad_fn is not None, "nothing was recorded"
        waiting = Counter[Any]()  # of each node, those that have yet to send it a gradient
        found = [self.grad_fn]
        for node in found:
            for after, _number in node.next_functions:
                if after is not None:
                    if after not in waiting:
                        found.append(after)
                    waiting[after] += 1
        start = torch.ones_like(self) if gradient is None else gradient
        arrived: dict[Any, dict[int, torch.Tensor]] = {self.grad_fn: {0: start}}
        ready = [self.grad_fn]
        with torch.no_grad():
            while ready:
                node = ready.pop()
                given = arrived.pop(node, {})
                sent = node(*(given.get(i) for i in range(max(given, default=0) + 1)))
                sent = sent if isinstance(sent, tuple) else (sent,)
                for (after, number), part in zip(node.next_functions, sent, strict=False):
                    if after is None:
                        continue
                    if part is not None:
                        expected = after._input_metadata[number]
                        part = part.sum_to_size(expected.shape).to(expected.dtype)
                        parts = arrived.setdefault(after, {})
                        parts[number] = parts[number] + part if number in parts else part
                    waiting[after] -= 1
                    if not waiting[after]:
                        ready.append(after)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.detach().cpu().__reduce_ex__(protocol)  # torch.load puts it where it is told

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return DEVICES[-1].run(func, args, kwargs or {})


DEVICES: list["PseudoGpu"] = []  # the one in use is the last


class PseudoGpu(TorchDispatchMode):
    """The device. As a context manager it answers for `cuda` in this thread."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        super().__init__()
        self.capacity = capacity  # bytes
        self.allocated = 0  # bytes of all tensors alive
        self.peak = 0
        self.pinned = WeakValueDictionary[int, torch.Tensor]()  # CPU tensors by id
        self._allocations = WeakValueDictionary[int, Allocation]()  # by the address of their memory
        self._composite: dict[Any, bool] = {}
        self._counts: Counts | None = None

    @contextmanager
    def counting(self) -> Iterator[Counts]:
        """Counts waits and kernels while the block runs."""
        before = self._counts
        self._counts = Counts()
        try:
            yield self._counts
        finally:
            self._counts = before

    def allocate(self, size: int) -> None:
        """Takes `size` bytes. Raises OutOfMemoryError as CUDA does."""
        self.allocated += size
        if self.allocated > self.capacity:
            free = self.capacity - self.allocated + size
            raise torch.OutOfMemoryError(
                f"CUDA out of memory. Tried to allocate {size / 2**20:.2f} MiB. GPU 0 has a total"
                f" capacity of {self.capacity / 2**20:.2f} MiB of which {free / 2**20:.2f} MiB is"
                " free."
            )
        self.peak = max(self.peak, self.allocated)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return self.run(func, args, kwargs or {})

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs an operation where its tensors are, or where `device` says."""
        name = func._schema.name
        if name in ("aten::index", "aten::_unsafe_index"):
            name += "." + func._schema.overload_name
        tensors: list[torch.Tensor] = []
        _collect(args, tensors)
        _collect(tuple(kwargs.values()), tensors)
        here = [tensor for tensor in tensors if isinstance(tensor, PseudoTensor)]
        target = _target(args, kwargs)
        if not here and (target is None or target.type != "cuda"):
            if kwargs.get("pin_memory"):
                return self.pin(func(*args, **{**kwargs, "pin_memory": False}))
            return func(*args, **kwargs)
        if name not in WHOLE and self._has_parts(func):
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        if name in COPYING:
            return self._copy(func, name, args, kwargs, target)
        _check_devices(func, name, args, here, tensors)
        if self._counts is not None:
            self._count(func, name, args, tensors)
        known = {id(tensor.inner): tensor for tensor in here}
        inner_kwargs = {key: _inner(value) for key, value in kwargs.items()}
        if target is not None:
            inner_kwargs["device"] = CPU
        if inner_kwargs.get("pin_memory"):
            inner_kwargs["pin_memory"] = False
        if name == "aten::histc" and not args[0].dtype.is_floating_point:  # CUDA counts integers
            result = func(args[0].inner.double(), *args[1:], **inner_kwargs).to(args[0].dtype)
        else:
            result = func(*_inner(args), **inner_kwargs)
        if target is not None and target.type == "cpu":
            return result
        return self._outer(result, known)

    def _has_parts(self, func: Any) -> bool:
        """Whether an operation is composed of others."""
        if func not in self._composite:
            self._composite[func] = func._can_decompose()
        return self._composite[func]

    def place(self, inner: torch.Tensor) -> PseudoTensor:
        """A tensor of this device with these numbers."""
        storage = inner.untyped_storage()
        address = storage.data_ptr()
        allocation = self._allocations.get(address) if address else None
        if allocation is None:
            allocation = Allocation(self, storage.nbytes())
            if address:
                self._allocations[address] = allocation
        return PseudoTensor(inner, allocation)

    def _outer(self, result: Any, known: Mapping[int, PseudoTensor]) -> Any:
        if isinstance(result, torch.Tensor):
            return known[id(result)] if id(result) in known else self.place(result)
        if isinstance(result, list | tuple):
            return type(result)(self._outer(part, known) for part in result)
        return result

    def _copy(
        self,
        func: Any,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        target: torch.device | None,
    ) -> Any:
        """Copies within this device, to it and from it; only the first is never waited for."""
        source = args[1] if name == "aten::copy_" else args[0]
        if name == "aten::copy_":
            goal = args[0].device
            blocking = not (kwargs.get("non_blocking") or (len(args) > 2 and args[2]))
        else:
            goal = source.device if target is None else target
            blocking = not kwargs.get("non_blocking")
        waits = ""
        if {goal.type, source.device.type} == {"cpu", "cuda"}:
            if goal.type == "cpu":
                waits = "copy to the CPU"
            elif blocking:
                waits = "copy to the GPU"
            elif not self.is_pinned(source):  # the driver may wait to stage it
                waits = "unpinned copy to the GPU"
        if self._counts is not None:
            if waits:
                self._counts.waiting[waits, _line()] += 1
            else:
                self._counts.kernel[name[6:], _line()] += 1
        if name == "aten::copy_":
            func(_inner(args[0]), _inner(source))
            return args[0]
        inner_kwargs = dict(kwargs)
        if target is not None:
            inner_kwargs["device"] = CPU if goal.type == "cuda" else goal
        inner_kwargs.pop("non_blocking", None)
        inner_kwargs.pop("pin_memory", None)
        result = func(_inner(source), **inner_kwargs)
        return self.place(result) if goal.type == "cuda" else result

    def _count(
        self, func: Any, name: str, args: tuple[Any, ...], tensors: list[torch.Tensor]
    ) -> None:
        assert self._counts is not None
        line = _line()
        for what in _waits(name, args, tensors):
            self._counts.waiting[what, line] += 1
        short = name.split("::")[1].split(".")[0]
        if short not in VIEWS:
            self._counts.kernel[short, line] += 1

    def pin(self, tensor: torch.Tensor) -> torch.Tensor:
        """A CPU tensor, from now on said to be in pinned memory."""
        if isinstance(tensor, PseudoTensor):
            raise RuntimeError(
                "cannot pin 'torch.cuda.Tensor' only dense CPU tensors can be pinned"
            )
        self.pinned[id(tensor)] = tensor
        return tensor

    def is_pinned(self, tensor: torch.Tensor) -> bool:
        return self.pinned.get(id(tensor)) is tensor


def _collect(values: Any, tensors: list[torch.Tensor]) -> None:
    """Adds all tensors among an operation's arguments to `tensors`."""
    for value in values:
        if isinstance(value, torch.Tensor):
            tensors.append(value)
        elif isinstance(value, list | tuple):
            _collect(value, tensors)


def _target(args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.device | None:
    """The device that an operation names, if it names one."""
    named = kwargs.get("device")
    if named is None:
        named = next((value for value in args if isinstance(value, torch.device)), None)
    return None if named is None else torch.device(named)


def _inner(value: Any) -> Any:
    """Arguments with the CPU tensors inside of this device's."""
    if isinstance(value, PseudoTensor):
        return value.inner
    if isinstance(value, list | tuple):
        return type(value)(_inner(part) for part in value)
    return value


def _check_devices(
    func: Any,
    name: str,
    args: tuple[Any, ...],
    here: list[PseudoTensor],
    tensors: list[torch.Tensor],
) -> None:
    """Raises CUDA's RuntimeError where tensors of the CPU meet those of this device."""
    others = [tensor for tensor in tensors if not isinstance(tensor, PseudoTensor)]
    if not others or not here:
        return
    if name in INDEXING:
        if not isinstance(args[0], PseudoTensor):
            raise RuntimeError(
                "indices should be either on cpu or on the same device as the indexed tensor (cpu)"
            )
        values = args[2] if len(args) > 2 else here[0]
        if isinstance(values, PseudoTensor) or values.dim() == 0:
            return
    elif all(tensor.dim() == 0 for tensor in others):
        mutable = func._schema.is_mutable and not isinstance(args[0], PseudoTensor)
        if not mutable and max(tensor.dim() for tensor in here) >= 0:
            return
    shapes = ", ".join(str(tuple(tensor.shape)) for tensor in others)
    raise RuntimeError(
        "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and"
        f" cpu! ({name}; on the CPU: {shapes})"
    )


def _waits(name: str, args: tuple[Any, ...], tensors: list[torch.Tensor]) -> Iterator[str]:
    """What the host waits for in an operation."""
    if name in WAITING:
        yield name[6:]
    elif name in INDEXING:
        indices = [index for index in args[1] if index is not None]
        masks = [index for index in indices if index.dtype in (torch.bool, torch.uint8)]
        fills = len(args) > 2 and args[2].numel() == 1 and args[2].device == CPU
        if not fills:  # else CUDA's masked_fill_
            for _ in masks:
                yield "index by a mask"
        for index in indices:
            if index.device == CPU:
                yield "index from the CPU"
    elif name == "aten::isin" and len(tensors) == 2:
        elements, others = tensors
        if others.numel() >= 10 * elements.numel() ** 0.145:
            yield "isin of many"


def _line() -> Line:
    """The innermost line of pbcore on the stack."""
    network = False
    frame = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(PACKAGE):
            inner = file.removeprefix(PACKAGE)
            return Line(inner, frame.f_lineno, frame.f_code.co_name, network or _in_forward(frame))
        if file.endswith("torch/nn/modules/module.py"):
            network = True
        frame = frame.f_back
    return Line("elsewhere", 0, "", network)


def _in_forward(frame: Any) -> bool:
    """Whether a frame of pbcore itself runs within a module's forward."""
    frame = frame.f_back
    while frame is not None:
        if frame.f_code.co_filename.endswith("torch/nn/modules/module.py"):
            return True
        frame = frame.f_back
    return False


class _Generator:
    """torch.Generator, which for `cuda` draws the CPU's numbers."""

    real = torch.Generator

    def __new__(cls, device: Any = "cpu") -> Any:
        return cls.real("cpu") if torch.device(device).type == "cuda" else cls.real(device)


def _backward(real: Any) -> Any:
    """torch.autograd.backward, for one number of the device or any of the CPU."""

    def backward(tensors: Any, *args: Any, **settings: Any) -> None:
        if isinstance(tensors, PseudoTensor):
            tensors.backward(*args)
        else:
            real(tensors, *args, **settings)

    return backward


def _load(real: Any) -> Any:
    """torch.load, which copies what is meant for the device there."""

    def load(*args: Any, map_location: Any = None, **settings: Any) -> Any:
        if map_location is None or torch.device(map_location).type != "cuda":
            return real(*args, map_location=map_location, **settings)
        loaded = real(*args, map_location=CPU, **settings)
        return tree_map_only(torch.Tensor, lambda tensor: tensor.to(DEVICE), loaded)

    return load


@contextmanager
def pseudo_device(capacity: int = CAPACITY) -> Iterator[PseudoGpu]:
    """Puts a pseudo-GPU in the place of CUDA while the block runs, in this thread."""
    gpu = PseudoGpu(capacity)
    torch._C._ensureCUDADeviceGuardSet()  # else C++ looks for a driver
    lift = torch._C._only_lift_cpu_tensors()
    torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor makes CPU tensors, then copies them
    patch = pytest.MonkeyPatch()
    swap = torch.__future__.get_swap_module_params_on_conversion()
    # A module's parameters stay the same objects, and so tied, when they come to the device.
    torch.__future__.set_swap_module_params_on_conversion(True)
    properties = SimpleNamespace(
        name=NAME,
        total_memory=capacity,
        major=9,
        minor=0,
        multi_processor_count=132,
        uuid="00000000-0000-0000-0000-000000000000",
    )

    def out_of(value: Any) -> Any:
        return lambda *_, **__: value

    def reset_peak(device: Any = None) -> None:
        gpu.peak = gpu.allocated

    functions: dict[str, Any] = {
        "_lazy_init": out_of(None),
        "init": out_of(None),
        "is_available": out_of(True),
        "is_initialized": out_of(True),
        "device_count": out_of(1),
        "current_device": out_of(0),
        "set_device": out_of(None),
        "synchronize": out_of(None),
        "empty_cache": out_of(None),
        "memory_allocated": lambda device=None: gpu.allocated,
        "memory_reserved": lambda device=None: gpu.allocated,
        "max_memory_allocated": lambda device=None: gpu.peak,
        "max_memory_reserved": lambda device=None: gpu.peak,
        "reset_peak_memory_stats": reset_peak,
        "mem_get_info": lambda device=None: (gpu.capacity - gpu.allocated, gpu.capacity),
        "get_device_name": out_of(NAME),
        "get_device_capability": out_of((9, 0)),
        "get_device_properties": out_of(properties),
        "is_bf16_supported": out_of(True),
        "manual_seed": out_of(None),
        "manual_seed_all": out_of(None),
        "get_rng_state": lambda device=None: torch.get_rng_state(),
        "set_rng_state": lambda state, device=None: torch.set_rng_state(state),
        "is_current_stream_capturing": out_of(False),
    }
    for name, function in functions.items():
        patch.setattr(torch.cuda, name, function)
    patch.setattr(torch.autograd, "backward", _backward(torch.autograd.backward))
    patch.setattr(torch, "Generator", _Generator)
    patch.setattr(torch, "load", _load(torch.load))
    patch.setattr(torch.Tensor, "pin_memory", lambda tensor, device=None: gpu.pin(tensor))
    patch.setattr(torch.Tensor, "is_pinned", lambda tensor, device=None: gpu.is_pinned(tensor))
    DEVICES.append(gpu)
    try:
        with gpu:
            yield gpu
    finally:
        DEVICES.pop()
        patch.undo()
        torch._C._set_only_lift_cpu_tensors(lift)
        torch.__future__.set_swap_module_params_on_conversion(swap)


def environment(folder: Path, capacity: int = CAPACITY) -> dict[str, str]:
    """Environment variables under which every Python process has a pseudo-GPU; `folder` takes a
    file for them.
    """
    code = "from tests.pseudo_gpu import install\n\ninstall()\n"
    (folder / "sitecustomize.py").write_text(code, encoding="utf-8")
    paths = [str(folder), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        **own_environment(),
        "PYTHONPATH": os.pathsep.join(paths),
        "PSEUDO_GPU_CAPACITY": str(capacity),
    }


def install() -> PseudoGpu:
    """Gives this process a pseudo-GPU until it ends."""
    if not DEVICES:
        device = pseudo_device(int(os.environ.get("PSEUDO_GPU_CAPACITY", CAPACITY)))
        device.__enter__()
        atexit.register(device.__exit__, None, None, None)
    return DEVICES[-1]
