"""Real servers on small random models: `transformers serve` on a checkpoint folder, llama.cpp's on
a GGUF file, both made here.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import numpy as np

START = 180.0  # seconds, on a machine that does much else
LLAMA_CPP = """
import sys, time, xllamacpp
params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.port = int(sys.argv[2])
params.n_parallel = 4
params.n_ctx = 16384
params.cpuparams.n_threads = 1
params.warmup = False
server = xllamacpp.Server(params)
while True:
    time.sleep(1)
"""


DLMSERVE = """
import os, sys
sys.path.append(sys.argv[1])
os.environ.update(DLMSERVE_MODEL=sys.argv[2], DLMSERVE_PORT=sys.argv[3])
os.environ.update(DLMSERVE_DTYPE="bf16", DLMSERVE_DEVICE="cpu")
sys.argv[1:] = []
from dlmserve.api.server import main
main()
"""


class RealServer:
    """A server in a process of its own; `command` makes its command line for a port, which stays
    its own.
    """

    def __init__(self, command: Callable[[int], list[str]], model: str, log: Path) -> None:
        self.model = model
        self.log = log
        self.port = free_port()
        self._command = command(self.port)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def answered(self) -> int:
        """The requests for answers in the server's own log, of all its lives."""
        return self.log.read_text(errors="replace").count(
            '"POST /v1/chat/completions HTTP/1.1" 200'
        )

    def start(self) -> None:
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
            "PYTHONUNBUFFERED": "1",
        }
        environment.pop("PYTHONPATH", None)
        with self.log.open("ab") as stream:
            self._process = subprocess.Popen(
                self._command,
                stdout=stream,
                stderr=stream,
                stdin=subprocess.DEVNULL,
                env=environment,
            )
        deadline = time.monotonic() + START
        while not self._healthy():
            assert self._process.poll() is None, self.log.read_text(errors="replace")[-2000:]
            assert time.monotonic() < deadline, self.log.read_text(errors="replace")[-2000:]
            time.sleep(0.1)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _healthy(self) -> bool:
        try:
            with urllib.request.urlopen(
                self.url.removesuffix("/v1") + "/health", timeout=5
            ) as page:
                return bool(page.status == 200)
        except (urllib.error.URLError, OSError):
            return False


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def transformers_server(folder: Path) -> RealServer:
    """`transformers serve` and a random checkpoint that it is asked for."""
    from tests.models.causal import causal_checkpoint

    causal_checkpoint(folder / "checkpoint")

    def command(port: int) -> list[str]:
        tool = str(Path(sys.executable).with_name("transformers"))
        return [tool, "serve", "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]

    return RealServer(command, str(folder / "checkpoint"), folder / "serve.log")


def llama_cpp_server(folder: Path) -> RealServer:
    """llama.cpp's server on a random GGUF file."""
    path = folder / "random.gguf"
    write_gguf(path)
    return RealServer(
        lambda port: [sys.executable, "-c", LLAMA_CPP, str(path), str(port)],
        str(path),
        folder / "log",
    )


def dlmserve_server(folder: Path) -> RealServer:
    """dlmserve with a made checkpoint, whose own code it runs and whose ids it asks for."""
    from pbcore.extras.check.engine.make import make
    from pbcore.extras.check.engine.suite import FEW, SamplerChecks

    checkpoint = folder / "llada"
    suite = [SamplerChecks("llada", "confidence-k4+b8", FEW)]
    make(checkpoint, "llada", published_ids=True, code=True, suite=suite)
    home = str(Path(str(importlib.util.find_spec("dlmserve").origin)).parents[1])
    return RealServer(
        lambda port: [sys.executable, "-c", DLMSERVE, home, str(checkpoint), str(port)],
        str(checkpoint),
        folder / "log",
    )


def write_gguf(
    path: Path, width: int = 64, layers: int = 2, heads: int = 4, inner: int = 96
) -> None:
    """A Llama with random weights whose tokens are bytes and ASCII characters."""
    import gguf

    characters = ["▁", *map(chr, range(33, 127))]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *characters]
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name("random")
    writer.add_context_length(4096)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(width // heads)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([-float(place) for place in range(len(tokens))])
    writer.add_token_types([2, 3, 3, *[6] * 256, *[1] * len(characters)])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template(
        "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant: "
    )
    draw = np.random.default_rng(0)

    def add(name: str, *shape: int) -> None:
        writer.add_tensor(f"{name}.weight", (draw.standard_normal(shape) * 0.3).astype(np.float32))

    for name in ("token_embd", "output"):
        add(name, len(tokens), width)
    norms = [
        "output_norm",
        *(f"blk.{i}.{part}_norm" for i in range(layers) for part in ("attn", "ffn")),
    ]
    for name in norms:
        writer.add_tensor(f"{name}.weight", np.ones(width, np.float32))
    for i in range(layers):
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(f"blk.{i}.{part}", width, width)
        for part in ("ffn_gate", "ffn_up"):
            add(f"blk.{i}.{part}", inner, width)
        add(f"blk.{i}.ffn_down", width, inner)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
