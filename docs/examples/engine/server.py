"""An OpenAI-compatible server of engine.py, which decodes together what comes together.

    python server.py DIR/llada 8000

Its requests have k or threshold (0.9), and block_length, beside OpenAI's fields. ENGINE_WRONG and
ENGINE_DTYPE are those of engine.py.
"""

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import engine
from transformers import PreTrainedTokenizerFast

MOMENT = 0.1  # seconds in which requests become one batch


class Batches:
    """Decodes prompts that come within a moment, and with the same setting, as one batch."""

    def __init__(self, folder):
        ends = json.loads((folder / "generation_config.json").read_text())["eos_token_id"]
        self.folder = folder
        self.eos_ids = tuple(ends) if isinstance(ends, list) else (ends,)
        self.tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
        self.lock = threading.Lock()
        self.waiting = []

    def ids(self, body):
        """The ids of an answer, up to and with its first EOS."""
        place = {"body": body, "done": threading.Event()}
        with self.lock:
            self.waiting.append(place)
            first = len(self.waiting) == 1
        if first:
            time.sleep(MOMENT)
            with self.lock:
                batch, self.waiting = self.waiting, []
                self.decode(batch)
        place["done"].wait()
        ids = place["ids"]
        ends = [at for at, token in enumerate(ids) if token in self.eos_ids]
        return ids[: ends[0] + 1] if ends else ids

    def decode(self, batch):
        settings = {}
        for place in batch:
            body = place["body"]
            names = ("k", "threshold", "block_length", "max_tokens")
            settings.setdefault(tuple(body.get(name) for name in names), []).append(place)
        for (k, threshold, block, length), places in settings.items():
            setting = SimpleNamespace(
                policy="threshold" if k is None else "confidence",
                k=k,
                threshold=0.9 if k is None and threshold is None else threshold,
                gen_length=length,
                block_length=block if block != length else None,
                attention="full",
                cache=None,
                temperature=0.0,
                eos_ids=self.eos_ids,
                batch=len(places),
            )
            prompts = [self.prompt(place["body"]) for place in places]
            answers = engine.generate(str(self.folder), prompts, setting)
            for place, answer in zip(places, answers, strict=True):
                place["ids"] = answer["ids"] if isinstance(answer, dict) else answer
                place["done"].set()

    def prompt(self, body):
        return self.tokenizer.apply_chat_template(body["messages"], return_dict=False)

    def reply(self, body):
        """The answer as OpenAI's chat completions have it; its text has no special tokens."""
        ids = self.ids(body)
        text = self.tokenizer.decode(ids, skip_special_tokens=True)
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": text},
            "finish_reason": "stop" if ids[-1] in self.eos_ids else "length",
        }
        return {"object": "chat.completion", "model": self.folder.name, "choices": [choice]}


def handler(batches):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send({"object": "list", "data": [{"id": batches.folder.name}]})

        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            self.send(batches.reply(json.loads(body)))

        def send(self, reply):
            data = json.dumps(reply).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *words):
            pass

    return Handler


if __name__ == "__main__":
    folder, port = Path(sys.argv[1]), int(sys.argv[2])
    print(f"http://127.0.0.1:{port}/v1", flush=True)
    ThreadingHTTPServer(("127.0.0.1", port), handler(Batches(folder))).serve_forever()
