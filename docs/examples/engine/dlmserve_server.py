"""dlmserve 0.1.1 on a made checkpoint, in bfloat16 on the CPU:

    pip install dlmserve==0.1.1  # in an environment of its own: it needs transformers 4
    pbcore check engine --make material --family llada --code
    python dlmserve_server.py material/llada 8000

It knows the mask token of LLaDA's published vocabulary alone, so it is told the checkpoint's.
"""

import json
import os
import sys
from pathlib import Path

from dlmserve.models import llada

folder, port = sys.argv[1:]
mask = json.loads((Path(folder) / "config.json").read_text())["mask_token_id"]
llada.MASK_ID = mask
llada.LoadedLLaDA.__init__.__defaults__ = (mask,)
os.environ |= {"DLMSERVE_MODEL": folder, "DLMSERVE_PORT": port}
os.environ |= {"DLMSERVE_DTYPE": "bf16", "DLMSERVE_DEVICE": "cpu"}
sys.argv[1:] = []

from dlmserve.api.server import main  # noqa: E402  reads the environment

main()
